// Each case has one member by itself, and in its neighbour's place the bare end
// of a link.
#include "worker/pipeline/group_links.h"

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "common/process/named_thread.h"
#include "common/process/process_name.h"
#include "common/rpc/polling.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/model/testing/model_testing.h"
#include "worker/pipeline/testing/deaf_neighbours.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

ResolvedJob JobOf(int members) {
  ResolvedJob job = MakeJob("layer { dense { units: 2 } }", {2});
  job.fingerprint = "f";
  job.job.mutable_cluster()->set_workers(4);
  job.job.mutable_worker()->mutable_group()->set_pipeline_stages(members);
  job.job.mutable_limits()->set_start_timeout_s(30);
  job.job.mutable_limits()->set_rejoin_timeout_s(30);
  job.job.mutable_limits()->set_lease_s(30);
  return job;
}

MemberIdentity Member(int member) {
  return {.worker = 3,
          .member = member,
          .fingerprint = "f",
          .job = "",
          .process = "host:1",
          .before = member - 1,
          .behind = member + 1};
}

proto::FromCoordinator Task(int64_t first_batch) {
  proto::FromCoordinator message;
  message.mutable_task()->set_first_batch(first_batch);
  return message;
}

proto::FromCoordinator Finish() {
  proto::FromCoordinator message;
  message.mutable_finish();
  return message;
}

// The answer to a task with one shard's base.
proto::ToCoordinator Ready(int64_t base) {
  proto::ToCoordinator answer;
  answer.mutable_ready()->add_shard_base(base);
  return answer;
}

// "welcome", "task 5".
std::string Text(const proto::FromCoordinator& message) {
  if (message.has_welcome()) return "welcome";
  if (message.has_finish()) return "finish";
  return absl::StrCat("task ", message.task().first_batch());
}

class GroupLinksTest : public ::testing::Test {
 protected:
  // As the worker does.
  static void SetUpTestSuite() { PollQueuesApart(); }

  LinkWait Wait() const {
    return {.timeout = absl::Seconds(30),
            .field = "limits.start_timeout_s",
            .stopped = [] { return false; }};
  }
  GroupLinks::Life Life() {
    return {
        .on_message =
            [this](const proto::FromCoordinator& message) { Hear(message); },
        .answer =
            [this](const proto::ToCoordinator& answer) { Answer(answer); },
        .on_broken = [this](const absl::Status&) { broke_.Notify(); },
        .stopped = [] { return false; }};
  }
  // The links of worker 3 with these flags, as one of `members`.
  void Open(const MemberFlags& flags, int members) {
    ResolvedJob job = JobOf(members);
    job.job.mutable_sync()->set_policy(policy_);
    if (listener_ == nullptr) {
      listener_ = *ListenForMembers(flags, job.job, /*group=*/3, {});
    }
    links_ = *GroupLinks::Open(flags, job, WorkerId(3),
                               flags.listen.empty() ? nullptr : listener_.get(),
                               &turn_, {});
  }
  // A life of member 0 of two begins; `behind_` is the other one's end.
  void BeginFirst() {
    Open({0, {}, address_}, 2);
    behind_ = *UpstreamLink::To(address_, Member(1), {});
    std::thread links = StartThread("behind", [this] {
      EXPECT_TRUE(
          behind_
              ->Link(
                  Wait(),
                  {.on_message = [this](const auto& message) { Hear(message); },
                   .on_broken = [](const auto&) {}})
              .ok());
    });
    EXPECT_TRUE(links_->BeginLife(Life(), /*rejoins=*/false).ok());
    links.join();
  }

  // How the first of two, with data "a" on device "x", takes one with `inputs`
  // for the member behind it.
  absl::Status FirstAnswers(const MemberInputs& inputs) {
    Open({0, {}, address_}, 2);
    bool stopped = false;  // After Link, which the wait does not outlive.
    absl::Mutex mu;
    std::thread first = StartThread("first", [&] {
      GroupLinks::Life life = Life();
      life.inputs = {{"training data", "a"}, {"device", "x"}};
      life.stopped = [&] {
        absl::MutexLock lock(&mu);
        return stopped;
      };
      EXPECT_TRUE(links_->BeginLife(life, /*rejoins=*/false).ok());
    });
    behind_ = *UpstreamLink::To(address_, Member(1), {});
    MembersBehind behind;
    behind.inputs = inputs;
    const absl::Status linked = behind_->Link(
        Wait(),
        {.on_message = [](const auto&) {}, .on_broken = [](const auto&) {}},
        behind);
    {
      absl::MutexLock lock(&mu);
      stopped = true;
    }
    first.join();
    return linked;
  }

  void Hear(const proto::FromCoordinator& message) {
    heard_.push_back(Text(message));
    if (heard_.back() == last_) heard_last_.Notify();
  }

  void Answer(const proto::ToCoordinator& answer) {
    absl::MutexLock lock(&mu_);
    answers_.push_back(answer);
    answered_.Notify();
  }
  std::vector<proto::ToCoordinator> answers() {
    absl::MutexLock lock(&mu_);
    return answers_;
  }

  // Of this process alone.
  const std::string address_ = absl::StrCat(
      "unix-abstract:group-links-test-", ProcessName(), "-",
      ::testing::UnitTest::GetInstance()->current_test_info()->name());
  proto::Policy policy_ = proto::SYNC;
  std::string last_;  // That is to be heard. Constant once linked.
  std::vector<std::string> heard_;
  absl::Mutex mu_;
  std::vector<proto::ToCoordinator> answers_ ABSL_GUARDED_BY(mu_);
  absl::Notification heard_last_, answered_, broke_;
  Turns turns_;
  SlotTurn turn_{&turns_};
  // Last: their threads use what is above.
  std::unique_ptr<MemberListener> listener_;
  std::unique_ptr<GroupLinks> links_;
  std::unique_ptr<DownstreamLink> before_;
  std::unique_ptr<UpstreamLink> behind_;
};

TEST_F(GroupLinksTest, FlagsMustFitTheJob) {
  // Flags: --member, --upstream, --listen.
  const auto error = [](const MemberFlags& flags) {
    return std::string(CheckMemberFlags(flags, JobOf(2).job, {}).message());
  };
  EXPECT_THAT(error({2, {}, ""}), HasSubstr("--member: must be 0 to 1"));
  EXPECT_THAT(error({0, {}, ""}),
              HasSubstr("--listen: member 0 needs an address"));
  EXPECT_THAT(error({1, {}, ""}),
              HasSubstr("--upstream: member 1 needs 1 addresses"));
  EXPECT_THAT(error({0, {"a:1"}, address_}),
              HasSubstr("--upstream: member 0 needs 0 addresses"));
  EXPECT_THAT(error({1, {address_}, "a:1"}),
              HasSubstr("--listen: member 1 has none behind it"));
}

TEST_F(GroupLinksTest, AWorkerOfOneMemberAnswersByItself) {
  Open({}, 1);
  ASSERT_TRUE(links_->BeginLife(Life(), /*rejoins=*/false).ok());
  links_->Welcomed({});
  links_->Up(Ready(7));
  ASSERT_EQ(answers().size(), 1);
  EXPECT_THAT(answers()[0].ready().shard_base(), ElementsAre(7));
}

TEST_F(GroupLinksTest, WhatComesBeforeTheWelcomeGoesDownBehindIt) {
  last_ = "task 3";
  BeginFirst();
  links_->Down(Task(1));
  links_->Down(Task(2));
  links_->Welcomed({});
  links_->Down(Task(3));
  heard_last_.WaitForNotification();
  EXPECT_THAT(heard_, ElementsAre("welcome", "task 1", "task 2", "task 3"));
}

TEST_F(GroupLinksTest, ARunThatIsOverNeedsNoWelcome) {
  last_ = "finish";
  BeginFirst();
  links_->Down(Finish());
  heard_last_.WaitForNotification();
  EXPECT_THAT(heard_, ElementsAre("finish"));
}

TEST_F(GroupLinksTest, AllMembersAnswerAsOne) {
  BeginFirst();
  links_->Welcomed({});
  links_->Up(Ready(7));
  behind_->Tell({});  // No answer.
  EXPECT_THAT(answers(), ::testing::IsEmpty());
  behind_->Tell(Ready(8));
  answered_.WaitForNotification();
  EXPECT_THAT(answers()[0].ready().shard_base(), ElementsAre(7, 8));
}

TEST_F(GroupLinksTest, ABrokenLinkEndsTheLife) {
  BeginFirst();
  links_->Welcomed({});
  EXPECT_TRUE(links_->broken().ok());
  behind_.reset();
  broke_.WaitForNotification();
  EXPECT_EQ(links_->broken(),
            absl::UnavailableError("member 1 of worker 3 is gone"));
}

// The coordinator's session reads on, and who computes can be stopped.
TEST_F(GroupLinksTest, NobodyWaitsForAMemberThatStandsStill) {
  Open({0, {}, address_}, 2);
  DeafBehind behind(address_);
  std::thread links = StartThread("behind", [&] { behind.Link(); });
  EXPECT_TRUE(links_->BeginLife(Life(), /*rejoins=*/false).ok());
  links.join();
  links_->Welcomed({});
  proto::FromCoordinator cancel;
  cancel.mutable_cancel()->set_reason(std::string(4 << 20, 'x'));
  for (int i = 0; i < 4; ++i) links_->Down(cancel);  // It does not block.
  std::thread sends = StartThread("sends", [this] {
    links_->place().behind->Send(0, std::vector<uint8_t>(16 << 20));
  });
  links_->Sever();
  sends.join();
  links_->EndLife();
  EXPECT_FALSE(broke_.HasBeenNotified()) << "nobody is at fault";
}

TEST_F(GroupLinksTest, WhenTheRunIsOverNoLinkBreaks) {
  last_ = "finish";
  BeginFirst();
  links_->Welcomed({});
  links_->Down(Finish());
  heard_last_.WaitForNotification();
  behind_.reset();
  links_->EndLife();  // No handler runs any more.
  EXPECT_FALSE(broke_.HasBeenNotified());
  EXPECT_TRUE(links_->broken().ok());
}

TEST_F(GroupLinksTest, AMemberIsWelcomedByTheOneBefore) {
  last_ = "finish";
  listener_ = *MemberListener::Listen(address_, {3}, {});
  before_ = std::make_unique<DownstreamLink>(listener_.get(), Member(0));
  Open({1, {address_}, ""}, 2);
  std::thread links = StartThread("before", [this] {
    EXPECT_TRUE(
        before_
            ->Await(Wait(), {.on_message =
                                 [this](const auto& answer) { Answer(answer); },
                             .on_broken = [](const auto&) {}})
            .ok());
    proto::FromCoordinator welcome;
    welcome.mutable_welcome()->set_incarnation(4);
    before_->Tell(welcome);
  });
  ASSERT_TRUE(links_->BeginLife(Life(), /*rejoins=*/false).ok());
  const auto welcome = links_->AwaitWelcome(/*rejoins=*/false);
  links.join();
  ASSERT_TRUE(welcome.ok() && welcome->has_value());
  EXPECT_EQ((*welcome)->incarnation(), 4);
  links_->Up(Ready(7));
  answered_.WaitForNotification();
  EXPECT_THAT(answers()[0].ready().shard_base(), ElementsAre(7));
  before_->Tell(Task(1));
  before_->Tell(Finish());
  heard_last_.WaitForNotification();
  links_->EndLife();
  EXPECT_THAT(heard_, ElementsAre("task 1", "finish"));
}

TEST_F(GroupLinksTest, AMemberWhoseRunIsOverIsNotWelcomed) {
  listener_ = *MemberListener::Listen(address_, {3}, {});
  before_ = std::make_unique<DownstreamLink>(listener_.get(), Member(0));
  Open({1, {address_}, ""}, 2);
  std::thread links = StartThread("before", [this] {
    EXPECT_TRUE(before_
                    ->Await(Wait(), {.on_message = [](const auto&) {},
                                     .on_broken = [](const auto&) {}})
                    .ok());
    before_->Tell(Finish());
  });
  ASSERT_TRUE(links_->BeginLife(Life(), /*rejoins=*/false).ok());
  const auto welcome = links_->AwaitWelcome(/*rejoins=*/false);
  links.join();
  ASSERT_TRUE(welcome.ok()) << welcome.status();
  EXPECT_FALSE(welcome->has_value());
  EXPECT_THAT(heard_, ElementsAre("finish"));  // As soon as that is so.
  links_->EndLife();
}

// The first stage reads the samples, and the last one their labels.
TEST_F(GroupLinksTest, AMemberWithOtherDataIsRefused) {
  const absl::Status refused = FirstAnswers({{"training data", "b"}});
  EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr("member 1 of worker 3: training data is \"b\" here, "
                        "\"a\" there"));
}

TEST_F(GroupLinksTest, AMemberWithTheSameInputsIsTaken) {
  EXPECT_TRUE(FirstAnswers({{"training data", "a"}, {"device", "x"}}).ok());
}

TEST_F(GroupLinksTest, UnderSyncDevicesMustBeTheSame) {
  EXPECT_TRUE(absl::IsFailedPrecondition(FirstAnswers({{"device", "y"}})));
}

TEST_F(GroupLinksTest, UnderOtherPoliciesDevicesMayDiffer) {
  policy_ = proto::ASYNC;
  EXPECT_TRUE(FirstAnswers({{"device", "y"}}).ok());
}

// A member in the middle says what those behind it have found, too.
TEST_F(GroupLinksTest, WhatTheMembersBehindHaveFoundGoesUp) {
  DownstreamLink first(
      &*(listener_ = *MemberListener::Listen(address_ + "-0", {3}, {})),
      Member(0));
  MembersBehind heard;
  std::thread before = StartThread("before", [&] {
    EXPECT_TRUE(first
                    .Await(Wait(), {.on_message = [](const auto&) {},
                                    .on_broken = [](const auto&) {}})
                    .ok());
    heard = first.members();
    proto::FromCoordinator welcome;
    welcome.mutable_welcome();
    first.Tell(welcome);
  });
  const auto own = *MemberListener::Listen(address_, {3}, {});
  ResolvedJob job = JobOf(3);
  job.job.mutable_sync()->set_policy(policy_);
  links_ = *GroupLinks::Open({1, {address_ + "-0"}, address_}, job, WorkerId(3),
                             own.get(), &turn_, {});
  const auto behind = *UpstreamLink::To(address_, Member(2), {});
  std::thread last = StartThread("last", [&] {
    MembersBehind none;
    none.inputs = {{"training data", "a"}};
    EXPECT_TRUE(behind
                    ->Link(Wait(),
                           {.on_message = [](const auto&) {},
                            .on_broken = [](const auto&) {}},
                           none)
                    .ok());
  });
  GroupLinks::Life life = Life();
  life.inputs = {{"device", "x"}};
  EXPECT_TRUE(links_->BeginLife(life, /*rejoins=*/false).ok());
  EXPECT_TRUE(links_->AwaitWelcome(/*rejoins=*/false).ok());
  before.join();
  last.join();
  EXPECT_THAT(heard.inputs,
              ElementsAre(Pair("device", "x"), Pair("training data", "a")));
  links_.reset();
}

}  // namespace
}  // namespace sluice
