#include "ps_server/shard/exchange_service.h"

#include <grpcpp/generic/generic_stub.h>

#include <future>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "common/exchange_error.h"
#include "common/rpc/channel_options.h"
#include "common/rpc/status_conversion.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/exchange.grpc.pb.h"
#include "ps_server/shard/loopback_testing.h"
#include "ps_server/shard/shard_testing.h"

namespace sluice {
namespace {

using ::sluice::testing::After;
using ::sluice::testing::ChunkOf;
using ::sluice::testing::Gradient;
using ::sluice::testing::Key;
using ::sluice::testing::kPatience;
using ::sluice::testing::Loopback;
using ::sluice::testing::Pull;
using ::sluice::testing::Pulled;
using ::sluice::testing::PullOf;
using ::sluice::testing::Push;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class ExchangeServiceTest : public ::testing::Test {
 protected:
  // Pushes a gradient of 1 and makes version `version` of it at rate 1.
  void Update(int64_t version) {
    const GradientKey key = Key(version);
    ASSERT_TRUE(Push(client_.get(), Gradient(key, grid_, 1)).ok());
    ASSERT_TRUE(
        loopback_.Execute(Commit{Version(version), 1, {{key, 1}}}).ok());
  }
  absl::Status PushOne(const proto::PushChunk& chunk) {
    return Push(client_.get(), {chunk});
  }

  const ChunkGrid grid_{testing::kFloats, 64};
  Loopback loopback_{testing::SmallOptions()};
  const std::unique_ptr<proto::Exchange::Stub> client_ = loopback_.Client();
};

TEST_F(ExchangeServiceTest, WeightsArePulledGradientsPushedAndCommitted) {
  const Pulled before = Pull(client_.get(), 0, true);
  ASSERT_TRUE(before.status.ok()) << before.status;
  EXPECT_EQ(before.weights,
            testing::SmallLayout().InitialWeights(1, {0, testing::kFloats}));
  Update(1);
  const Pulled after = Pull(client_.get(), 1, true);
  ASSERT_TRUE(after.status.ok()) << after.status;
  EXPECT_EQ(after.version, 1);
  for (size_t i = 0; i < after.weights.size(); ++i) {
    EXPECT_EQ(after.weights[i], before.weights[i] - 1);
  }
  const ExchangeCounters counters = loopback_.counters();
  EXPECT_EQ(counters.pushes_staged, 1);
  EXPECT_EQ(counters.push_bytes, 600);
  EXPECT_EQ(counters.pulls_served, 2);
  EXPECT_EQ(counters.pull_bytes, 1200);
  EXPECT_EQ(counters.decisions, 2);
}

// As wherever else an update is computed: in a replay, or in the simulator.
TEST_F(ExchangeServiceTest, ADenormalGradientCountsAsZero) {
  Update(1);  // fc.weight becomes 0.
  ASSERT_TRUE(Push(client_.get(), Gradient(Key(2), grid_, 1e-39f)).ok());
  ASSERT_TRUE(loopback_.Execute(Commit{Version(2), 1, {{Key(2), 1}}}).ok());
  const Pulled pulled = Pull(client_.get(), 2, true);
  ASSERT_TRUE(pulled.status.ok()) << pulled.status;
  EXPECT_EQ(pulled.weights[0], 0);
}

TEST_F(ExchangeServiceTest, AParkedPullIsAnsweredWhenItsVersionIsPublished) {
  auto pulled = std::async(std::launch::async,
                           [this] { return Pull(client_.get(), 1, true); });
  loopback_.Await(&ExchangeCounters::pulls_parked, 1);
  Update(1);
  const Pulled result = pulled.get();
  EXPECT_TRUE(result.status.ok()) << result.status;
  EXPECT_EQ(result.version, 1);
  EXPECT_EQ(loopback_.counters().pulls_not_yet, 0);
}

TEST_F(ExchangeServiceTest, AParkedPullHearsNotYetBeforeItsDeadline) {
  const Pulled pulled =
      Pull(client_.get(), 1, true, /*deadline=*/absl::Milliseconds(400));
  EXPECT_EQ(pulled.status,
            WithReason(proto::ExchangeError::NOT_YET,
                       absl::UnavailableError(
                           "version 1 was asked for, the newest is 0")));
  EXPECT_EQ(loopback_.counters().pulls_not_yet, 1);
}

TEST_F(ExchangeServiceTest, TwoPullsThatWaitForSuccessiveVersionsGetTheirOwn) {
  auto second = std::async(std::launch::async,
                           [this] { return Pull(client_.get(), 2, true); });
  auto first = std::async(std::launch::async,
                          [this] { return Pull(client_.get(), 1, true); });
  loopback_.Await(&ExchangeCounters::pulls_parked, 2);
  Update(1);
  Update(2);
  EXPECT_EQ(first.get().version, 1);
  EXPECT_EQ(second.get().version, 2);
}

// The coordinator waits for the decisions, so those come first; but who waits
// for exactly version 1 gets it before there is another.
TEST_F(ExchangeServiceTest,
       ParkedPullsAreAnsweredAfterTheDiscardsOfTheirCommit) {
  auto first = std::async(std::launch::async,
                          [this] { return Pull(client_.get(), 1, true); });
  auto second = std::async(std::launch::async,
                           [this] { return Pull(client_.get(), 2, true); });
  loopback_.Await(&ExchangeCounters::pulls_parked, 2);
  ASSERT_TRUE(Push(client_.get(), Gradient(Key(1), grid_, 1)).ok());
  ASSERT_TRUE(Push(client_.get(), Gradient(Key(2), grid_, 1)).ok());
  std::vector<int64_t> sent;
  loopback_.ExecuteTogether(
      {Commit{Version(1), 1, {{Key(1), 1}}}, Discard{{Key(3)}},
       Commit{Version(2), 1, {{Key(2), 1}}}},
      [&] { sent.push_back(loopback_.counters().pull_bytes); });
  EXPECT_THAT(sent, ElementsAre(0, 0, 256));  // A chunk.
  EXPECT_EQ(first.get().version, 1);
  EXPECT_EQ(second.get().version, 2);
}

TEST_F(ExchangeServiceTest, AnExactPullOfAnOldVersionHearsThatItIsGone) {
  Update(1);
  const Pulled pulled = Pull(client_.get(), 0, true);
  EXPECT_EQ(pulled.status,
            WithReason(proto::ExchangeError::VERSION_GONE,
                       absl::AbortedError("shard 0: version 0 was asked for, "
                                          "the newest is 1")));
}

TEST_F(ExchangeServiceTest, AnotherGenerationIsRefusedInBothDirections) {
  EXPECT_EQ(Pull(client_.get(), 0, true, kPatience, 2).status.code(),
            absl::StatusCode::kFailedPrecondition);
  GradientKey key = Key(1);
  key.generation = Generation(2);
  EXPECT_EQ(PushOne(ChunkOf(key, 0, std::vector<float>(64))).code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST_F(ExchangeServiceTest, BadChunksAreRefusedWithWhatIsWrongWithThem) {
  std::vector<float> floats(64, 1);
  EXPECT_EQ(PushOne(ChunkOf(Key(1), 128, floats)),
            absl::InvalidArgumentError(
                "shard 0: gradient g1/w0/i1/s1: chunk at 128 has 256 bytes, "
                "expected 88"));
  proto::PushChunk ungranted = ChunkOf(Key(1), 0, floats);
  ungranted.mutable_grant()->back() ^= 1;
  EXPECT_EQ(PushOne(ungranted).code(), absl::StatusCode::kPermissionDenied);
  proto::PushChunk damaged = ChunkOf(Key(1), 0, floats);
  (*damaged.mutable_data())[5] ^= 1;
  EXPECT_EQ(PushOne(damaged).code(), absl::StatusCode::kDataLoss);
  floats[3] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(PushOne(ChunkOf(Key(1), 64, floats)),
            absl::InvalidArgumentError("shard 0: gradient g1/w0/i1/s1 is nan "
                                       "in tensor fc.weight at position 67"));
  EXPECT_EQ(Push(client_.get(), {}).code(), absl::StatusCode::kInvalidArgument);
  auto chunks = Gradient(Key(1), grid_, 1);
  chunks[1] = Gradient(Key(2), grid_, 1)[1];
  EXPECT_EQ(Push(client_.get(), chunks),
            absl::InvalidArgumentError("one push carries gradients g1/w0/i1/s1 "
                                       "and g1/w0/i1/s2"));
  loopback_.Await(&ExchangeCounters::pushes_refused, 6);
  EXPECT_EQ(loopback_.counters().pushes_staged, 0);
  Update(1);  // The service goes on, and the refused key may be pushed whole.
}

TEST_F(ExchangeServiceTest, AReadyIsHandedOnOnceAllOfItsGradientIsStaged) {
  absl::Mutex mu;
  std::vector<std::string> told;
  const auto taken = [&] {
    absl::MutexLock lock(&mu);
    return told;
  };
  Loopback lead(testing::SmallOptions(), absl::Seconds(30),
                [&](const GradientKey& key, const std::string& ready) {
                  absl::MutexLock lock(&mu);
                  told.push_back(absl::StrCat(key.ToString(), " ", ready));
                  return absl::OkStatus();
                });
  const auto client = lead.Client();
  auto chunks = Gradient(Key(1), grid_, 1);
  const std::vector<proto::PushChunk> rest = {chunks.back()};
  chunks.pop_back();
  chunks.front().set_ready("is ready");
  ASSERT_TRUE(Push(client.get(), chunks).ok());
  EXPECT_THAT(taken(), IsEmpty());
  ASSERT_TRUE(Push(client.get(), rest).ok());  // On another call.
  EXPECT_THAT(taken(), ElementsAre("g1/w0/i1/s1 is ready"));
  // As a push that is repeated, since its reply got lost.
  ASSERT_TRUE(Push(client.get(), chunks).ok());
  EXPECT_THAT(taken(), SizeIs(1));
  ASSERT_TRUE(Push(client.get(), Gradient(Key(2), grid_, 1)).ok());
  EXPECT_THAT(taken(), SizeIs(1));
}

TEST_F(ExchangeServiceTest, WhoeverTakesAReadyMayRefuseThePush) {
  Loopback lead(testing::SmallOptions(), absl::Seconds(30),
                [](const GradientKey&, const std::string&) {
                  return absl::AbortedError("its task has ended");
                });
  auto chunks = Gradient(Key(1), grid_, 1);
  chunks.front().set_ready("is ready");
  EXPECT_EQ(Push(lead.Client().get(), chunks),
            absl::AbortedError("its task has ended"));
  EXPECT_EQ(lead.counters().pushes_staged, 0);
}

TEST_F(ExchangeServiceTest, OneOfSeveralShardsTakesNoReady) {
  auto chunks = Gradient(Key(1), grid_, 1);
  chunks.front().set_ready("is ready");
  EXPECT_EQ(Push(client_.get(), chunks),
            absl::DataLossError(
                "gradient g1/w0/i1/s1 comes with a Ready, expected it on the "
                "worker's session: this is not the one shard of the run"));
}

TEST_F(ExchangeServiceTest, CallsThatEachBringAPartStageAGradientTogether) {
  auto first = Gradient(Key(1), grid_, 1);
  const std::vector<proto::PushChunk> rest = {first.back()};
  first.pop_back();
  int64_t staged = -1;
  ASSERT_TRUE(Push(client_.get(), first, &staged).ok());
  EXPECT_EQ(staged, grid_.begin(grid_.count() - 1));
  EXPECT_EQ(loopback_.counters().pushes_staged, 0);
  ASSERT_TRUE(Push(client_.get(), rest, &staged).ok());
  EXPECT_EQ(staged, grid_.floats());
  EXPECT_EQ(loopback_.counters().pushes_staged, 1);
  ASSERT_TRUE(loopback_.Execute(Commit{Version(1), 1, {{Key(1), 1}}}).ok());
}

TEST_F(ExchangeServiceTest,
       APushThatClosesItsSideBehindADiscardHearsThatItsTaskHasEnded) {
  grpc::ClientContext context;
  context.set_deadline(After(kPatience));
  proto::PushReply reply;
  const auto writer = client_->Push(&context, &reply);
  ASSERT_TRUE(writer->Write(Gradient(Key(1), grid_, 1)[0]));
  loopback_.Await(&ExchangeCounters::push_bytes, 256);
  ASSERT_TRUE(loopback_.Execute(Discard{{Key(1)}}).ok());
  writer->WritesDone();
  EXPECT_EQ(FromGrpcStatus(writer->Finish()),
            absl::AbortedError("task g1/w0/i1/s1 has ended"));
  EXPECT_EQ(loopback_.counters().pushes_refused, 0);
}

TEST_F(ExchangeServiceTest, ALateChunkAfterADiscardIsRefused) {
  ASSERT_TRUE(loopback_.Execute(Discard{{Key(1)}}).ok());
  EXPECT_EQ(Push(client_.get(), Gradient(Key(1), grid_, 1)),
            absl::AbortedError("shard 0: task g1/w0/i1/s1 has ended"));
}

TEST_F(ExchangeServiceTest, ARepeatedPushIsAcceptedAndCountedOnce) {
  ASSERT_TRUE(Push(client_.get(), Gradient(Key(1), grid_, 1)).ok());
  ASSERT_TRUE(Push(client_.get(), Gradient(Key(1), grid_, 1)).ok());
  ASSERT_TRUE(loopback_.Execute(Commit{Version(1), 1, {{Key(1), 1}}}).ok());
  EXPECT_EQ(Pull(client_.get(), 1, true).weights[0], 0);
  EXPECT_EQ(Push(client_.get(), Gradient(Key(1), grid_, 1)).code(),
            absl::StatusCode::kAborted);
}

TEST_F(ExchangeServiceTest, AMessageLargerThanAllowedIsRefused) {
  const std::vector<float> floats(kMaxMessageBytes / sizeof(float) + 1);
  EXPECT_EQ(PushOne(ChunkOf(Key(1), 0, floats)).code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(Push(client_.get(), Gradient(Key(1), grid_, 1)).ok());
}

// Sends `bytes` as the only message of a call, and returns its status.
absl::Status SendRaw(const std::shared_ptr<grpc::Channel>& channel,
                     const std::string& method, const std::string& bytes) {
  grpc::GenericStub stub(channel);
  grpc::ClientContext context;
  context.set_deadline(After(kPatience));
  grpc::CompletionQueue queue;
  void* tag;
  bool ok;
  const auto call = stub.PrepareCall(&context, method, &queue);
  call->StartCall(nullptr);
  queue.Next(&tag, &ok);
  const grpc::Slice slice(bytes);
  call->WriteLast(grpc::ByteBuffer(&slice, 1), grpc::WriteOptions(), nullptr);
  queue.Next(&tag, &ok);
  grpc::Status status;
  call->Finish(&status, nullptr);
  queue.Next(&tag, &ok);
  return FromGrpcStatus(status);
}

TEST_F(ExchangeServiceTest, GarbageIsRefusedAndTheServiceGoesOn) {
  const auto channel = loopback_.Connect();
  const std::string good = Gradient(Key(1), grid_, 1)[0].SerializeAsString();
  for (const std::string& bytes :
       {std::string("\xff\xff\xff\xff"), good.substr(0, good.size() / 2),
        std::string(1000, '\x07')}) {
    EXPECT_EQ(SendRaw(channel, "/sluice.proto.Exchange/Push", bytes).code(),
              absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(SendRaw(channel, "/sluice.proto.Exchange/Pull", bytes).code(),
              absl::StatusCode::kInvalidArgument);
  }
  // Well formed, but nothing in it.
  EXPECT_EQ(SendRaw(channel, "/sluice.proto.Exchange/Push", "").code(),
            absl::StatusCode::kFailedPrecondition);
  Update(1);
}

TEST_F(ExchangeServiceTest, AfterACancelMidPushTheSameKeyIsPushedAgain) {
  const auto chunks = Gradient(Key(1), grid_, 1);
  {
    grpc::ClientContext context;
    context.set_deadline(After(kPatience));
    proto::PushReply reply;
    const auto writer = client_->Push(&context, &reply);
    ASSERT_TRUE(writer->Write(chunks[0]));
    loopback_.Await(&ExchangeCounters::push_bytes, 256);
    context.TryCancel();
    EXPECT_EQ(writer->Finish().error_code(), grpc::StatusCode::CANCELLED);
  }
  loopback_.Await(&ExchangeCounters::pushes_cancelled, 1);
  ASSERT_TRUE(Push(client_.get(), chunks).ok());
  EXPECT_EQ(loopback_.counters().duplicate_chunks, 1);
  ASSERT_TRUE(loopback_.Execute(Commit{Version(1), 1, {{Key(1), 1}}}).ok());
  EXPECT_EQ(Pull(client_.get(), 1, true).weights[149], 1);
}

TEST_F(ExchangeServiceTest, ACancelledParkedPullIsForgotten) {
  grpc::ClientContext context;
  context.set_deadline(After(kPatience));
  proto::PullRequest request;
  request.set_generation(1);
  request.set_version(1);
  request.set_type(proto::FP32);
  const auto reader = client_->Pull(&context, request);
  loopback_.Await(&ExchangeCounters::pulls_parked, 1);
  context.TryCancel();
  loopback_.Await(&ExchangeCounters::pulls_cancelled, 1);
  Update(1);
  EXPECT_EQ(loopback_.counters().pulls_served, 0);
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::CANCELLED);
}

TEST_F(ExchangeServiceTest, ShutdownEndsAParkedPull) {
  auto pulled = std::async(std::launch::async,
                           [this] { return Pull(client_.get(), 1, true); });
  loopback_.Await(&ExchangeCounters::pulls_parked, 1);
  loopback_.Stop();
  EXPECT_FALSE(pulled.get().status.ok());
}

TEST_F(ExchangeServiceTest, AFaultIsReportedWithTheDecision) {
  const absl::Status status =
      loopback_.Execute(Commit{Version(1), 1, {{Key(1), 1}}});
  EXPECT_EQ(status.message(),
            "shard 0: version 1: gradient g1/w0/i1/s1 is not staged: 3 of 3 "
            "chunks are missing");
}

TEST_F(ExchangeServiceTest, APullGoesOnWhereAnEarlierOneBrokeOff) {
  const Pulled whole = Pull(client_.get(), 0, true);
  ASSERT_TRUE(whole.status.ok());
  for (int chunk = 0; chunk < grid_.count(); ++chunk) {
    const Pulled rest =
        Pull(client_.get(), PullOf(0, /*exact=*/true, grid_.begin(chunk)));
    EXPECT_TRUE(rest.status.ok()) << rest.status;
    EXPECT_EQ(rest.weights,
              std::vector<float>(whole.weights.begin() + grid_.begin(chunk),
                                 whole.weights.end()));
  }
  // Only while the shard holds that version.
  Update(1);
  EXPECT_TRUE(absl::IsAborted(
      Pull(client_.get(), PullOf(0, /*exact=*/true, grid_.begin(1))).status));
}

TEST_F(ExchangeServiceTest, APullMayEndWhereAChunkDoes) {
  const Pulled whole = Pull(client_.get(), 0, true);
  proto::PullRequest request = PullOf(0, /*exact=*/true, 64);
  request.set_end(128);
  const Pulled part = Pull(client_.get(), request);
  EXPECT_TRUE(part.status.ok()) << part.status;
  EXPECT_EQ(part.weights, std::vector<float>(whole.weights.begin() + 64,
                                             whole.weights.begin() + 128));
  for (const int64_t end : {-1L, 1L, 64L, 127L, 151L}) {
    request.set_end(end);
    EXPECT_TRUE(absl::IsInvalidArgument(Pull(client_.get(), request).status))
        << end;
  }
}

// Parts [0, 100) and [100, 150), in chunks of 64.
TEST(ExchangePartsTest, AMemberPullsAndPushesItsOwnPart) {
  ShardOptions options = testing::SmallOptions();
  options.member_cuts = {100};
  Loopback loopback(options);
  const auto client = loopback.Client();
  proto::PullRequest request = PullOf(0, /*exact=*/false, 100);
  const Pulled second = Pull(client.get(), request);
  EXPECT_EQ(second.weights, std::vector<float>(50, 2)) << second.status;
  request.set_offset(0);
  request.set_end(100);
  EXPECT_EQ(Pull(client.get(), request).weights, std::vector<float>(100, 1));
  const auto push = [&](int64_t offset, int64_t floats) {
    return ChunkOf(Key(1), offset, std::vector<float>(floats, 1));
  };
  EXPECT_TRUE(Push(client.get(), {push(100, 28), push(128, 22)}).ok());
  EXPECT_FALSE(loopback.Execute(Commit{Version(1), 1, {{Key(1), 1}}}).ok());
}

TEST_F(ExchangeServiceTest, APullThatBeginsWhereNoChunkDoesIsRefused) {
  for (const int64_t offset : {-1L, 1L, 63L, 65L, 150L, 192L, 1L << 40}) {
    EXPECT_TRUE(absl::IsInvalidArgument(
        Pull(client_.get(), PullOf(0, /*exact=*/true, offset)).status))
        << offset;
  }
  // What has come before is of one version.
  EXPECT_EQ(Pull(client_.get(), PullOf(0, /*exact=*/false, 64)).status,
            absl::InvalidArgumentError(
                "the pull begins at 64 of at least version 0, expected 0, or "
                "exactly one version"));
  EXPECT_EQ(loopback_.counters().pulls_refused, 8);
}

TEST(ExchangeStallTest, ACallThatBringsNothingIsEnded) {
  Loopback loopback(testing::SmallOptions(), /*stall=*/absl::Milliseconds(200));
  grpc::GenericStub stub(loopback.Connect());
  for (const auto& [method, said] :
       {std::pair("Pull", "the pull has said nothing for "),
        std::pair("Push", "the push brought no chunk for 200ms")}) {
    grpc::CompletionQueue queue;
    grpc::ClientContext context;
    context.set_deadline(After(kPatience));
    const auto call = stub.PrepareCall(
        &context, absl::StrCat("/sluice.proto.Exchange/", method), &queue);
    grpc::Status ended;
    call->StartCall(nullptr);
    call->Finish(&ended, nullptr);
    void* tag;
    bool ok;
    for (int operations = 2; operations > 0; --operations) {
      ASSERT_TRUE(queue.Next(&tag, &ok));
    }
    EXPECT_EQ(ended.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
    EXPECT_THAT(ended.error_message(), ::testing::HasSubstr(said));
  }
}

// The chunks of a gradient of `value`, task 1 of worker `turn`, with that turn.
std::vector<proto::PushChunk> InTurn(int64_t turn, float value) {
  const GradientKey key = Key(1, turn);
  auto chunks = Gradient(key, ChunkGrid(testing::kFloats, 64), value);
  for (proto::PushChunk& chunk : chunks) {
    chunk.set_grant(GrantKey(testing::kSecret).GrantFor(key, "", turn));
  }
  return chunks;
}

ShardOptions WithRoomForOne() {
  ShardOptions options = testing::SmallOptions();
  options.staged_gradients = 1;
  return options;
}

TEST(ExchangeTurnTest, APushWaitsForItsTurnAndIsThenTaken) {
  Loopback loopback(WithRoomForOne());
  const auto client = loopback.Client();
  auto second = std::async(std::launch::async,
                           [&] { return Push(client.get(), InTurn(1, 2)); });
  loopback.Await(&ExchangeCounters::pushes_parked, 1);
  ASSERT_TRUE(Push(client.get(), InTurn(0, 1)).ok());
  EXPECT_EQ(loopback.counters().pushes_staged, 1);
  const std::vector<CommitEntry> entries = {{Key(1, 0), 0.5f},
                                            {Key(1, 1), 0.5f}};
  ASSERT_TRUE(loopback.Execute(Fold{Version(1), 1, {entries[0]}}).ok());
  ASSERT_TRUE(second.get().ok());
  Commit commit{Version(1), 1, entries};
  commit.folded = 1;
  ASSERT_TRUE(loopback.Execute(commit).ok());
  EXPECT_EQ(Pull(client.get(), 1, true).weights[149], 2 - 1.5f);
}

TEST(ExchangeTurnTest, APushThatWaitsIsToldToComeAgainBeforeItStalls) {
  Loopback loopback(WithRoomForOne(), /*stall=*/absl::Milliseconds(200));
  const auto client = loopback.Client();
  const absl::Status status = Push(client.get(), InTurn(1, 2));
  EXPECT_EQ(ReasonOf(status), proto::ExchangeError::NOT_YET);
  EXPECT_EQ(status.message(),
            "gradient g1/w1/i1/s1 waits for its turn: 0 gradients are here, "
            "and the next that is to be folded is number 0 of its update");
}

TEST(ExchangeTurnTest, ACancelledPushThatWaitedIsForgotten) {
  Loopback loopback(WithRoomForOne());
  const auto client = loopback.Client();
  {
    grpc::ClientContext context;
    proto::PushReply reply;
    const auto writer = client->Push(&context, &reply);
    ASSERT_TRUE(writer->Write(InTurn(1, 2)[0]));
    loopback.Await(&ExchangeCounters::pushes_parked, 1);
    context.TryCancel();
    EXPECT_EQ(writer->Finish().error_code(), grpc::StatusCode::CANCELLED);
  }
  ASSERT_TRUE(Push(client.get(), InTurn(0, 1)).ok());
  ASSERT_TRUE(loopback.Execute(Fold{Version(1), 1, {{Key(1, 0), 0.5f}}}).ok());
}

TEST(ExchangeParkTest, AParkedPullIsAnsweredBeforeItsCallerTakesItForStalled) {
  Loopback loopback(testing::SmallOptions(), /*stall=*/absl::Milliseconds(200));
  const auto client = loopback.Client();
  const absl::Time begin = Clock::Real()->Now();
  const Pulled pulled = Pull(client.get(), 1, true);
  EXPECT_TRUE(absl::IsUnavailable(pulled.status)) << pulled.status;
  EXPECT_EQ(ReasonOf(pulled.status), proto::ExchangeError::NOT_YET);
  EXPECT_GE(Clock::Real()->Now() - begin, absl::Milliseconds(100));
  EXPECT_LT(Clock::Real()->Now() - begin, kPatience / 2);
}

TEST_F(ExchangeServiceTest, APullOfNoKnownTypeIsRefused) {
  for (const int type : {0, 7}) {
    grpc::ClientContext context;
    proto::PullRequest request;
    request.set_generation(1);
    request.set_type(static_cast<proto::FloatType>(type));
    const auto reader = client_->Pull(&context, request);
    proto::PullChunk chunk;
    EXPECT_FALSE(reader->Read(&chunk));
    const grpc::Status status = reader->Finish();
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
    EXPECT_EQ(status.error_message(),
              absl::StrCat("the pull's type is ", type,
                           ", expected a FloatType: FP32, BF16 or FP16"));
  }
}

}  // namespace
}  // namespace sluice
