// Pulls over real gRPC while a checkpoint is being written and updates go on.

#include <atomic>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "common/clock.h"
#include "common/files/file_operations.h"
#include "common/grant.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ps_server/checkpoint/background_writer.h"
#include "ps_server/checkpoint/checkpoint.h"
#include "ps_server/checkpoint/shard_file.h"
#include "ps_server/shard/shard.h"
#include "tests/loopback/served_shard.h"
#include "worker/exchange/grpc_exchange.h"
#include "worker/task/cancel_token.h"

namespace sluice {
namespace {

using ::testing::Each;

constexpr int64_t kFloats = 5000;
constexpr int64_t kChunkFloats = 1024;
constexpr float kMomentum = 0.5f;
// For this many versions, weights and velocity are exact.
constexpr int kStored = 3;
constexpr int kUpdates = 12;

// Far longer than the test takes. A wait of this length is a failure.
constexpr absl::Duration kLong = absl::Seconds(30);

ParameterLayout Layout() {
  TensorSpec tensor;
  tensor.name = "weights";
  tensor.shape = {kFloats};
  tensor.size = kFloats;
  return ParameterLayout({tensor}, /*shards=*/1);
}

ShardOptions Options() {
  ShardOptions options{.id = ShardId(0),
                       .initial_weights =
                           [](ParameterRange range) {
                             return Layout().InitialWeights(1, range);
                           },
                       .layout = Layout(),
                       .optimizer = {},
                       .chunk_bytes = kChunkFloats * sizeof(float),
                       .max_held = 2,
                       .staged_gradients = 2};
  options.optimizer.mutable_sgd()->set_momentum(kMomentum);
  return options;
}

// The value of every weight and of its velocity at a version. The gradient of
// an update is the number of the version it makes; the rate is 1.
struct Expected {
  float weight = 0;
  float velocity = 0;
};
Expected At(int64_t version) {
  Expected at;
  for (int64_t v = 1; v <= version; ++v) {
    at.velocity = kMomentum * at.velocity + static_cast<float>(v);
    at.weight -= at.velocity;
  }
  return at;
}

// The system's files, but the third write waits until it is allowed to go on.
// By then a part of the file has been written.
class WaitingFiles : public FileOperations {
 public:
  absl::Status Write(int file, const std::string& path,
                     absl::string_view data) override {
    if (++writes_ == 3) {
      reached.Notify();
      if (!go_on.WaitForNotificationWithTimeout(kLong)) {
        return absl::DeadlineExceededError("the test let nothing through");
      }
    }
    return FileOperations::Write(file, path, data);
  }
  absl::Notification reached;
  absl::Notification go_on;

 private:
  int writes_ = 0;
};

class CheckpointLoopbackTest : public ::testing::Test {
 protected:
  static GradientKey Key(int64_t sequence) {
    return {Generation(1), WorkerId(0), Incarnation(1), Sequence(sequence)};
  }
  std::unique_ptr<GrpcExchange> Connect() {
    GrpcExchange::Options options;
    options.chunk_bytes = kChunkFloats * sizeof(float);
    return std::make_unique<GrpcExchange>(
        &layout_, std::vector<std::string>{shard_.address()}, options);
  }
  // Pulls that version, or with `exact` false that or a newer one. All weights
  // must be of one version.
  void PullAndCheck(GrpcExchange* exchange, int64_t version, bool exact) {
    std::vector<float> weights(kFloats);
    const auto pulled =
        exchange->Pull({.generation = Generation(1),
                        .version = Version(version),
                        .exact = exact,
                        .deadline = Clock::Real()->Now() + kLong},
                       absl::MakeSpan(weights), token_);
    ASSERT_TRUE(pulled.ok()) << pulled.status();
    ASSERT_GE(pulled->at(0), Version(version));
    EXPECT_THAT(weights, Each(At(pulled->at(0).value()).weight));
  }
  void Update(GrpcExchange* exchange, int64_t version) {
    const std::vector<float> gradient(kFloats, static_cast<float>(version));
    exchange->BeginPush(Key(version),
                        GrantKey(ServedShard::kSecret).GrantFor(Key(version)),
                        gradient);
    exchange->PushFrom(0);
    const absl::Status pushed = exchange->FinishPush(token_);
    ASSERT_TRUE(pushed.ok()) << pushed;
    shard_.Execute(Commit{Version(version), 1.0, {{Key(version), 1}}});
  }

  const ParameterLayout layout_ = Layout();
  const ShardFileIdentity identity_ = {
      .job_fingerprint = "job",
      .layout_fingerprint = LayoutFingerprint(layout_),
      .generation = Generation(1),
      .version = Version(kStored),
      .shard = ShardId(0),
      .shards = 1,
      .range = layout_.range(ShardId(0)),
      .chunk_floats = kChunkFloats};
  CancelToken token_;
  ServedShard shard_{Options()};
};

TEST_F(CheckpointLoopbackTest,
       APullWhileACheckpointIsWrittenSeesNoTornVersion) {
  const std::string run = testing::TempDir() + "/checkpoint_loopback";
  std::filesystem::remove_all(run);
  std::filesystem::create_directories(run);
  WaitingFiles files;
  BackgroundWriter writer(run, &files);
  const auto exchange = Connect();
  for (int64_t v = 1; v <= kStored; ++v) Update(exchange.get(), v);

  absl::StatusOr<proto::CheckpointFile> file;
  absl::Notification written;
  ASSERT_TRUE(writer
                  .Write(identity_, shard_.Hold(Version(kStored)),
                         [&](auto stored) {
                           file = std::move(stored);
                           written.Notify();
                         })
                  .ok());
  ASSERT_TRUE(files.reached.WaitForNotificationWithTimeout(kLong));

  // One thread pulls all the time, whatever the newest version is.
  std::atomic<bool> over = false;
  std::atomic<int> pulls = 0;
  std::thread reader([&] {
    const auto other = Connect();
    for (; !over; ++pulls) PullAndCheck(other.get(), kStored, false);
  });
  for (int64_t v = kStored + 1; v <= kUpdates; ++v) {
    Update(exchange.get(), v);
    PullAndCheck(exchange.get(), v, /*exact=*/true);
  }
  files.go_on.Notify();
  ASSERT_TRUE(written.WaitForNotificationWithTimeout(kLong));
  over = true;
  reader.join();
  EXPECT_GT(pulls, 0);

  // The file holds the version that was held.
  ASSERT_TRUE(file.ok()) << file.status();
  const auto stored =
      ShardFile::Open(CheckpointFolder(run, {Generation(1), Version(kStored)}),
                      identity_, {"weights", "velocity"}, *file);
  ASSERT_TRUE(stored.ok()) << stored.status();
  for (const auto& [array, expected] :
       {std::pair("weights", At(kStored).weight),
        std::pair("velocity", At(kStored).velocity)}) {
    std::vector<float> floats(kFloats);
    const absl::Status read =
        stored->Read(array, identity_.range, absl::MakeSpan(floats));
    ASSERT_TRUE(read.ok()) << read;
    EXPECT_THAT(floats, Each(expected)) << array;
  }
}

}  // namespace
}  // namespace sluice
