#include "worker/pipeline/member_link.h"

#include <grpcpp/create_channel.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "common/process/exit_codes.h"
#include "common/process/named_thread.h"
#include "common/process/process_name.h"
#include "common/rpc/polling.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/pipeline/testing/deaf_neighbours.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

GradientKey Key(int64_t sequence) {
  return {Generation(1), WorkerId(3), Incarnation(1), Sequence(sequence)};
}

MemberIdentity Member(int member, const std::string& fingerprint = "f") {
  return {.worker = 3,
          .member = member,
          .fingerprint = fingerprint,
          .job = "seed: 1",
          .process = "host:1",
          .before = member - 1,
          .behind = member + 1};
}

class MemberLinkTest : public ::testing::Test {
 protected:
  // As the worker does.
  static void SetUpTestSuite() { PollQueuesApart(); }
  MemberLinkTest() {
    auto listening = MemberListener::Listen(address_, {3, 5}, {});
    EXPECT_TRUE(listening.ok()) << listening.status();
    listener_ = *std::move(listening);
    before_ = std::make_unique<DownstreamLink>(listener_.get(), Member(0));
    behind_ = *UpstreamLink::To(address_, Member(1), {});
  }

  LinkWait Wait(absl::Duration timeout = absl::Seconds(30)) const {
    return {.timeout = timeout,
            .field = "limits.start_timeout_s",
            .stopped = [] { return false; }};
  }
  void LinkBoth() {
    std::thread links = StartThread("links", [this] {
      EXPECT_TRUE(
          behind_
              ->Link(Wait(),
                     {.on_message =
                          [this](const proto::FromCoordinator& message) {
                            down_ = message;
                            heard_down_.Notify();
                          },
                      .on_broken =
                          [this](const absl::Status& why) {
                            broken_behind_ = why;
                            behind_broke_.Notify();
                          }})
              .ok());
    });
    EXPECT_TRUE(before_
                    ->Await(Wait(), {.on_message =
                                         [this](const proto::ToCoordinator& m) {
                                           up_ = m;
                                           heard_up_.Notify();
                                         },
                                     .on_broken =
                                         [this](const absl::Status& why) {
                                           broken_before_ = why;
                                           before_broke_.Notify();
                                         }})
                    .ok());
    links.join();
  }

  // Of this process alone.
  const std::string address_ = absl::StrCat(
      "unix-abstract:member-link-test-", ProcessName(), "-",
      ::testing::UnitTest::GetInstance()->current_test_info()->name());
  proto::FromCoordinator down_;
  proto::ToCoordinator up_;
  absl::Status broken_before_, broken_behind_;
  absl::Notification heard_down_, heard_up_, before_broke_, behind_broke_;
  // Last: their threads use what is above.
  std::unique_ptr<MemberListener> listener_;
  std::unique_ptr<DownstreamLink> before_;  // Member 0's.
  std::unique_ptr<UpstreamLink> behind_;    // Member 1's.
};

TEST_F(MemberLinkTest, ActivationsGoDownAndTheirGradientsUp) {
  LinkBoth();
  before_->Begin(Key(1));
  behind_->Begin(Key(1));
  // More than one message carries.
  std::vector<uint8_t> sent(3'000'000), came(sent.size());
  for (size_t i = 0; i < sent.size(); ++i) sent[i] = i * 7 % 251;
  before_->Send(0, sent);
  const CancelToken cancel;
  ASSERT_TRUE(behind_->Receive(0, absl::MakeSpan(came), cancel).ok());
  EXPECT_EQ(came, sent);
  std::reverse(sent.begin(), sent.end());
  behind_->Send(0, sent);
  ASSERT_TRUE(before_->Receive(0, absl::MakeSpan(came), cancel).ok());
  EXPECT_EQ(came, sent);
}

TEST_F(MemberLinkTest, MessagesReachTheHandlers) {
  LinkBoth();
  proto::FromCoordinator task;
  task.mutable_task()->set_first_batch(5);
  before_->Tell(task);
  heard_down_.WaitForNotification();
  EXPECT_EQ(down_.task().first_batch(), 5);
  proto::ToCoordinator ready;
  ready.mutable_ready()->set_loss(2);
  behind_->Tell(ready);
  heard_up_.WaitForNotification();
  EXPECT_EQ(up_.ready().loss(), 2);
}

TEST_F(MemberLinkTest, AMemberThatIsGoneIsNamed) {
  LinkBoth();
  behind_.reset();
  before_broke_.WaitForNotification();
  EXPECT_EQ(broken_before_,
            absl::UnavailableError("member 1 of worker 3 is gone"));
  before_->Begin(Key(1));
  std::vector<uint8_t> into(4);
  EXPECT_EQ(before_->Receive(0, absl::MakeSpan(into), CancelToken()),
            broken_before_);
}

// Whether a handler hears that its link has broken before Receive says so. Else
// whoever computes would end for a reason that is not its own.
class Order {
 public:
  std::function<void(const absl::Status&)> OnBroken() {
    return [this](const absl::Status&) {
      heard_first_ =
          !received_.WaitForNotificationWithTimeout(absl::Milliseconds(200));
      heard_.Notify();
    };
  }
  // REQUIRES: the other end is gone.
  bool HeardFirst(LinkEnd* end) {
    end->Begin(Key(1));
    std::vector<uint8_t> into(4);
    EXPECT_FALSE(end->Receive(0, absl::MakeSpan(into), CancelToken()).ok());
    received_.Notify();
    heard_.WaitForNotification();
    return heard_first_;
  }

 private:
  absl::Notification received_, heard_;
  bool heard_first_ = false;
};

TEST_F(MemberLinkTest, ReceiveSaysThatTheOtherIsGoneOnceTheHandlerHasHeard) {
  for (const bool behind_goes : {true, false}) {
    Order order;
    before_ = nullptr;
    before_ = std::make_unique<DownstreamLink>(listener_.get(), Member(0));
    behind_ = *UpstreamLink::To(address_, Member(1), {});
    const auto ignored = [](const auto&) {};
    std::thread links = StartThread("links", [&] {
      UpstreamLink::Handlers handlers = {ignored, ignored};
      if (!behind_goes) handlers.on_broken = order.OnBroken();
      EXPECT_TRUE(behind_->Link(Wait(), handlers).ok());
    });
    DownstreamLink::Handlers handlers = {ignored, ignored};
    if (behind_goes) handlers.on_broken = order.OnBroken();
    EXPECT_TRUE(before_->Await(Wait(), handlers).ok());
    links.join();
    if (behind_goes) {
      behind_ = nullptr;
      EXPECT_TRUE(order.HeardFirst(before_.get()));
      before_ = nullptr;
    } else {
      before_ = nullptr;
      EXPECT_TRUE(order.HeardFirst(behind_.get()));
      behind_ = nullptr;
    }
  }
}

// At the second look at it the member behind has linked, and the time is over.
class LinkingClock final : public Clock {
 public:
  explicit LinkingClock(DeafBehind* behind) : behind_(*behind) {}
  absl::Time Now() override {
    if (++looks_ == 1) return absl::UnixEpoch();
    if (looks_ == 2) behind_.Link();
    return absl::UnixEpoch() + absl::Seconds(30);
  }

 private:
  DeafBehind& behind_;
  int looks_ = 0;
};

TEST_F(MemberLinkTest, WhoComesAsTheWaitEndsHasNoLink) {
  before_ = nullptr;  // Its place is free.
  DeafBehind late(address_);
  LinkingClock clock(&late);
  before_ = std::make_unique<DownstreamLink>(listener_.get(), Member(0),
                                             absl::Seconds(10), &clock);
  EXPECT_TRUE(absl::IsUnavailable(before_->Await(
      Wait(),
      {.on_message = [](const auto&) {},
       .on_broken =
           [](const auto&) { ADD_FAILURE() << "of a wait that is over"; }})));
  LinkBoth();
  EXPECT_THAT(before_->members().processes, ElementsAre("host:1"));
  before_ = nullptr;
}

TEST_F(MemberLinkTest, AnAddressThatIsTakenMayBeFreeLater) {
  EXPECT_TRUE(
      absl::IsUnavailable(MemberListener::Listen(address_, {3}, {}).status()));
  const auto port = *Listener::Open("127.0.0.1:0", {});
  const std::string taken = absl::StrCat("127.0.0.1:", port->port());
  EXPECT_TRUE(
      absl::IsUnavailable(MemberListener::Listen(taken, {3}, {}).status()));
}

TEST_F(MemberLinkTest, TheOneBeforeThatIsGoneIsNamed) {
  LinkBoth();
  before_.reset();
  behind_broke_.WaitForNotification();
  EXPECT_EQ(broken_behind_,
            absl::UnavailableError(absl::StrCat("member 0 of worker 3 at ",
                                                address_, " is gone")));
}

// Its connection is alive, and full.
TEST_F(MemberLinkTest, WhoSendsToOneThatStandsStillIsHeldUpForALease) {
  before_ = nullptr;
  before_ = std::make_unique<DownstreamLink>(listener_.get(), Member(0),
                                             absl::Milliseconds(400));
  DeafBehind behind(address_);
  std::thread links = StartThread("links", [&] { behind.Link(); });
  EXPECT_TRUE(before_
                  ->Await(Wait(), {.on_message = [](const auto&) {},
                                   .on_broken =
                                       [this](const absl::Status& why) {
                                         broken_before_ = why;
                                         before_broke_.Notify();
                                       }})
                  .ok());
  links.join();
  before_->Begin(Key(1));
  before_->Send(0, std::vector<uint8_t>(16 << 20));
  before_broke_.WaitForNotification();
  EXPECT_EQ(broken_before_,
            absl::UnavailableError("member 1 of worker 3 is gone"));
}

TEST_F(MemberLinkTest, WhoSendsUpToOneThatStandsStillIsHeldUpForALease) {
  const std::string address = address_ + "-deaf";
  const DeafBefore before(address);
  behind_ = *UpstreamLink::To(address, Member(1), {}, absl::Milliseconds(400));
  EXPECT_TRUE(behind_
                  ->Link(Wait(), {.on_message = [](const auto&) {},
                                  .on_broken =
                                      [this](const absl::Status& why) {
                                        broken_behind_ = why;
                                        behind_broke_.Notify();
                                      }})
                  .ok());
  behind_->Begin(Key(1));
  behind_->Send(0, std::vector<uint8_t>(16 << 20));
  behind_broke_.WaitForNotification();
  EXPECT_EQ(broken_behind_,
            absl::UnavailableError(
                absl::StrCat("member 0 of worker 3 at ", address, " is gone")));
  behind_ = nullptr;
}

// Nobody sends anything but what says that the other end is there.
TEST_F(MemberLinkTest, AQuietLinkLasts) {
  before_ = nullptr;
  const absl::Duration lease = absl::Milliseconds(400);
  before_ = std::make_unique<DownstreamLink>(listener_.get(), Member(0), lease);
  behind_ = *UpstreamLink::To(address_, Member(1), {}, lease);
  LinkBoth();
  EXPECT_FALSE(before_broke_.WaitForNotificationWithTimeout(4 * lease));
  EXPECT_FALSE(behind_broke_.HasBeenNotified());
}

TEST_F(MemberLinkTest, UnlinkEndsAWriteThatWaits) {
  const std::string address = address_ + "-deaf";
  const DeafBefore before(address);
  behind_ = *UpstreamLink::To(address, Member(1), {}, absl::Hours(1));
  EXPECT_TRUE(behind_
                  ->Link(Wait(), {.on_message = [](const auto&) {},
                                  .on_broken = [](const auto&) {}})
                  .ok());
  proto::ToCoordinator answer;
  answer.mutable_rejected()->set_reason(std::string(4 << 20, 'x'));
  for (int i = 0; i < 4; ++i) behind_->Tell(answer);
  behind_->Unlink();
}

TEST_F(MemberLinkTest, ALinkIsMadeAnew) {
  LinkBoth();
  behind_->Unlink();
  before_broke_.WaitForNotification();
  before_->Unlink();
  std::thread links = StartThread("links", [this] {
    EXPECT_TRUE(behind_
                    ->Link(Wait(), {.on_message =
                                        [this](const auto& message) {
                                          down_ = message;
                                          heard_down_.Notify();
                                        },
                                    .on_broken = [](const auto&) {}})
                    .ok());
  });
  EXPECT_TRUE(before_
                  ->Await(Wait(), {.on_message = [](const auto&) {},
                                   .on_broken = [](const auto&) {}})
                  .ok());
  links.join();
  proto::FromCoordinator verdict;
  verdict.mutable_verdict();
  before_->Tell(verdict);
  heard_down_.WaitForNotification();
  EXPECT_TRUE(down_.has_verdict());
}

TEST_F(MemberLinkTest, TheShardThatTheMemberBehindDoesNotReachIsKnownBefore) {
  const absl::Duration lease = absl::Milliseconds(400);
  behind_ = *UpstreamLink::To(address_, Member(1), {}, lease);
  LinkBoth();
  EXPECT_FALSE(before_->unreached().has_value());
  const absl::Time since = Clock::Real()->Now() - absl::Seconds(100);
  behind_->TellUnreached([since] {
    return UnreachedShard{"shard 1 at host:7000", since};
  });
  while (!before_->unreached().has_value()) {
  }
  EXPECT_EQ(before_->unreached()->name, "shard 1 at host:7000");
  EXPECT_LE(absl::AbsDuration(before_->unreached()->since - since),
            absl::Seconds(50));
  // Who answers has reached it.
  behind_->TellUnreached(nullptr);
  proto::ToCoordinator answer;
  answer.mutable_ready();
  behind_->Tell(answer);
  heard_up_.WaitForNotification();
  EXPECT_TRUE(up_.has_ready());
  EXPECT_FALSE(before_->unreached().has_value());
}

TEST_F(MemberLinkTest, OneThatDoesNotComeIsNamed) {
  const absl::Status late = before_->Await(
      Wait(absl::Milliseconds(150)),
      {.on_message = [](const auto&) {}, .on_broken = [](const auto&) {}});
  EXPECT_EQ(late, AskForRestart(absl::UnavailableError(
                      "member 1 of worker 3: no link for 150ms "
                      "(limits.start_timeout_s)")));
  // Nobody waits for one now.
  const absl::Status not_ready = behind_->Link(
      Wait(absl::Milliseconds(150)),
      {.on_message = [](const auto&) {}, .on_broken = [](const auto&) {}});
  EXPECT_THAT(std::string(not_ready.message()), HasSubstr("no link for 150ms"));
}

// Which may be there, and wait like this one for the next.
TEST_F(MemberLinkTest, OneWithOthersBehindItIsNotTheOnlyOneNamed) {
  before_.reset();  // One of a listener and a worker.
  MemberIdentity self = Member(0);
  self.more = true;
  DownstreamLink link(listener_.get(), self);
  const absl::Status late = link.Await(
      Wait(absl::Milliseconds(150)),
      {.on_message = [](const auto&) {}, .on_broken = [](const auto&) {}});
  EXPECT_THAT(std::string(late.message()),
              HasSubstr("member 1 of worker 3, or one behind it: no link"));
}

TEST_F(MemberLinkTest, AnotherJobOrPlaceIsRefused) {
  std::thread waits = StartThread("waits", [this] {
    EXPECT_TRUE(before_
                    ->Await(Wait(), {.on_message = [](const auto&) {},
                                     .on_broken = [](const auto&) {}})
                    .ok());
  });
  const auto refusal = [this](MemberIdentity self) {
    return (*UpstreamLink::To(address_, std::move(self), {}))
        ->Link(Wait(), {.on_message = [](const auto&) {},
                        .on_broken = [](const auto&) {}});
  };
  MemberIdentity other = Member(1, "g");
  other.job = "seed: 2";
  absl::Status refused = refusal(other);
  EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr("member 1 of worker 3: has another job: seed: 2 here, "
                        "1 there"));
  refused = refusal(Member(2));
  EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr("member 2 of worker 3 comes where member 1 of worker 3 "
                        "is expected"));
  MemberIdentity stranger = Member(1);
  stranger.worker = 4;
  refused = refusal(stranger);
  EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
  EXPECT_THAT(
      std::string(refused.message()),
      HasSubstr("member 1 of worker 4 comes where one of worker 3 or 5 is "
                "expected"));
  EXPECT_TRUE(behind_
                  ->Link(Wait(), {.on_message = [](const auto&) {},
                                  .on_broken = [](const auto&) {}})
                  .ok());
  waits.join();
}

// Two slots of a member, one address: each has a link of its own.
TEST_F(MemberLinkTest, ALinkIsOfItsWorker) {
  MemberIdentity identity = Member(0);
  identity.worker = 5;
  DownstreamLink other_before(listener_.get(), identity);
  identity = Member(1);
  identity.worker = 5;
  const auto other_behind = *UpstreamLink::To(address_, identity, {});
  LinkBoth();
  absl::Notification heard;
  std::thread links = StartThread("links", [&] {
    EXPECT_TRUE(other_behind
                    ->Link(Wait(), {.on_message =
                                        [&](const auto& message) {
                                          EXPECT_TRUE(message.has_finish());
                                          heard.Notify();
                                        },
                                    .on_broken = [](const auto&) {}})
                    .ok());
  });
  EXPECT_TRUE(other_before
                  .Await(Wait(), {.on_message = [](const auto&) {},
                                  .on_broken = [](const auto&) {}})
                  .ok());
  links.join();
  proto::FromCoordinator finish;
  finish.mutable_finish();
  other_before.Tell(finish);
  heard.WaitForNotification();
  EXPECT_FALSE(heard_down_.HasBeenNotified());
  other_behind->Unlink();
  other_before.Unlink();
}

// Three attempts are refused before it listens. A connection on which nobody
// waited would be given up after 3 s, and made anew after that.
TEST_F(MemberLinkTest, ALinkIsMadeAsSoonAsTheMemberBeforeListens) {
  const std::string address = address_ + "-late";
  const auto behind = *UpstreamLink::To(address, Member(1), {});
  absl::Notification refused;
  int asked = 0;
  std::thread links = StartThread("links", [&] {
    LinkWait wait = Wait(absl::Milliseconds(2900));
    wait.stopped = [&] {
      if (++asked == 4) refused.Notify();
      return false;
    };
    const absl::Status linked = behind->Link(
        wait,
        {.on_message = [](const auto&) {}, .on_broken = [](const auto&) {}});
    EXPECT_TRUE(linked.ok()) << linked;
  });
  refused.WaitForNotification();
  const auto listener = *MemberListener::Listen(address, {3}, {});
  DownstreamLink before(listener.get(), Member(0));
  EXPECT_TRUE(before
                  .Await(Wait(), {.on_message = [](const auto&) {},
                                  .on_broken = [](const auto&) {}})
                  .ok());
  links.join();
  behind->Unlink();
  before.Unlink();
}

TEST_F(MemberLinkTest, WhoSaysNothingIsCutOff) {
  const auto stub = proto::Member::NewStub(
      grpc::CreateChannel(address_, grpc::InsecureChannelCredentials()));
  grpc::ClientContext silent;
  const auto stream = stub->Link(&silent);
  proto::ToDownstream message;
  EXPECT_FALSE(stream->Read(&message));
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::CANCELLED);
}

TEST_F(MemberLinkTest, AnAddressOffTheLoopbackWantsTls) {
  EXPECT_THAT(
      std::string(
          MemberListener::Listen("10.1.2.3:1", {3}, {}).status().message()),
      HasSubstr("--listen: 10.1.2.3:1 is not on the loopback"));
  EXPECT_THAT(
      std::string(
          UpstreamLink::To("10.1.2.3:1", Member(1), {}).status().message()),
      HasSubstr("--upstream: 10.1.2.3:1 is not on the loopback"));
}

}  // namespace
}  // namespace sluice
