#include "ps_server/shard/staging.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/grant.h"
#include "gtest/gtest.h"
#include "ps_server/shard/shard_testing.h"

namespace sluice {
namespace {

using ::sluice::testing::HeaderOf;
using ::sluice::testing::Key;
using ::sluice::testing::kFloats;
using ::sluice::testing::kSecret;
using ::sluice::testing::PayloadOf;

// Chunks of 64, 64 and 22 floats; room for two gradients.
class StagingTest : public ::testing::Test {
 protected:
  StagingTest() { staging_.Reset(Generation(1), kSecret); }

  absl::StatusOr<bool> Stage(const GradientKey& key, int chunk, float value) {
    const std::vector<float> floats(grid_.size(chunk), value);
    return staging_.Stage(HeaderOf(key, grid_.begin(chunk)), PayloadOf(floats));
  }
  void StageAll(const GradientKey& key, float value) {
    for (int chunk = 0; chunk < grid_.count(); ++chunk) {
      ASSERT_TRUE(Stage(key, chunk, value).ok());
    }
  }
  bool IsStaged(const GradientKey& key) { return staging_.Find(key).ok(); }

  const ParameterLayout layout_ = testing::SmallLayout();
  const ChunkGrid grid_{kFloats, 64};
  Staging staging_{&layout_, {0, kFloats}, grid_, FloatType::kFp32, 2};
};

TEST_F(StagingTest, AGradientIsStagedWhenItsLastChunkIsHereInAnyOrder) {
  EXPECT_FALSE(*Stage(Key(1), 2, 3));
  EXPECT_FALSE(*Stage(Key(1), 0, 1));
  EXPECT_EQ(staging_.Find(Key(1)).status().message(),
            "gradient g1/w0/i1/s1 is not staged: 1 of 3 chunks are missing");
  EXPECT_TRUE(*Stage(Key(1), 1, 2));
  const float* floats = *staging_.Find(Key(1));
  EXPECT_EQ(floats[0], 1);
  EXPECT_EQ(floats[64], 2);
  EXPECT_EQ(floats[149], 3);
}

TEST_F(StagingTest, ARepeatedChunkCountsOnceAndChangesNothing) {
  EXPECT_FALSE(*Stage(Key(1), 0, 1));
  EXPECT_FALSE(*Stage(Key(1), 0, 7));
  EXPECT_FALSE(*Stage(Key(1), 0, 7));
  EXPECT_FALSE(*Stage(Key(1), 1, 1));
  EXPECT_TRUE(*Stage(Key(1), 2, 1));
  EXPECT_EQ((*staging_.Find(Key(1)))[0], 1);
  EXPECT_EQ(staging_.duplicate_chunks(), 2);
}

TEST_F(StagingTest, ARepeatedPushOfAStagedGradientIsStagedAtOnce) {
  StageAll(Key(1), 1);
  EXPECT_TRUE(*Stage(Key(1), 0, 9));
  EXPECT_EQ(staging_.held(), 1);
}

TEST_F(StagingTest, AReadyIsKeptWhicheverChunkBringsIt) {
  PushChunkHeader header = HeaderOf(Key(1), 64);
  const std::vector<float> floats(64);
  ASSERT_TRUE(staging_.Stage(header, PayloadOf(floats)).ok());
  EXPECT_EQ(staging_.TakeReady(Key(1)), "");
  header.ready = "a Ready";  // Of a chunk that is here already.
  ASSERT_TRUE(staging_.Stage(header, PayloadOf(floats)).ok());
  EXPECT_EQ(staging_.TakeReady(Key(1)), "") << "not all is here";
  EXPECT_FALSE(*Stage(Key(1), 0, 1));
  EXPECT_TRUE(*Stage(Key(1), 2, 1));
  EXPECT_EQ(staging_.TakeReady(Key(1)), "a Ready");
  // The push is repeated, since its reply got lost.
  EXPECT_TRUE(*staging_.Stage(header, PayloadOf(floats)));
  EXPECT_EQ(staging_.TakeReady(Key(1)), "");
}

TEST_F(StagingTest, AReadyThatIsTooLongIsRefused) {
  PushChunkHeader header = HeaderOf(Key(1), 0);
  header.ready = std::string((32 << 10) + 1, 'x');
  const std::vector<float> floats(64);
  EXPECT_EQ(staging_.Stage(header, PayloadOf(floats)).status(),
            absl::DataLossError("gradient g1/w0/i1/s1: its Ready has 32769 "
                                "bytes, expected at most 32768"));
  EXPECT_EQ(staging_.held(), 0);
}

TEST_F(StagingTest, AnUngrantedPushIsRefused) {
  const std::vector<float> floats(64);
  PushChunkHeader header = HeaderOf(Key(1), 0);
  header.grant.back() ^= 1;
  EXPECT_EQ(staging_.Stage(header, PayloadOf(floats)).status().code(),
            absl::StatusCode::kPermissionDenied);
  header = HeaderOf(Key(1), 0);
  header.key.sequence = Sequence(2);  // Another task's grant.
  EXPECT_EQ(staging_.Stage(header, PayloadOf(floats)).status().code(),
            absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(staging_.held(), 0);
}

TEST_F(StagingTest, AGrantIsOfNoUseToAnyOtherHolderOfACertificate) {
  const std::vector<float> floats(64);
  PushChunkHeader header = HeaderOf(Key(1), 0);
  header.grant = GrantKey(kSecret).GrantFor(Key(1), "worker 1's key");
  for (const char* thief : {"worker 2's key", ""}) {
    EXPECT_EQ(staging_.Stage(header, PayloadOf(floats), thief).status().code(),
              absl::StatusCode::kPermissionDenied);
  }
  EXPECT_TRUE(staging_.Stage(header, PayloadOf(floats), "worker 1's key").ok());
}

TEST_F(StagingTest, AnotherGenerationIsRefused) {
  staging_.Reset(Generation(2), kSecret);
  EXPECT_EQ(Stage(Key(1), 0, 1).status(),
            absl::FailedPreconditionError("gradient g1/w0/i1/s1 is of "
                                          "generation 1, expected 2"));
}

TEST_F(StagingTest, AWrongOffsetOrSizeSaysWhatWasExpectedAndWhatCame) {
  const std::vector<float> floats(64);
  for (const int64_t offset : {-64, 1, 192, 1 << 20}) {
    const auto status =
        staging_.Stage(HeaderOf(Key(1), offset), PayloadOf(floats)).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << offset;
  }
  EXPECT_EQ(staging_.Stage(HeaderOf(Key(1), 1), PayloadOf(floats)).status(),
            absl::InvalidArgumentError(
                "gradient g1/w0/i1/s1: offset is 1, expected a multiple of 64 "
                "below 150"));
  EXPECT_EQ(staging_.Stage(HeaderOf(Key(1), 128), PayloadOf(floats)).status(),
            absl::InvalidArgumentError("gradient g1/w0/i1/s1: chunk at 128 has "
                                       "256 bytes, expected 88"));
}

TEST_F(StagingTest, AnotherTypeThanTheJobsIsRefused) {
  const std::vector<float> floats(64);
  PushChunkHeader header = HeaderOf(Key(1), 0);
  header.type = FloatType::kBf16;
  EXPECT_EQ(staging_.Stage(header, PayloadOf(floats)).status(),
            absl::InvalidArgumentError(
                "gradient g1/w0/i1/s1 is BF16, expected FP32"));
  header.type = static_cast<FloatType>(7);
  EXPECT_EQ(staging_.Stage(header, PayloadOf(floats)).status(),
            absl::InvalidArgumentError(
                "gradient g1/w0/i1/s1 is of no known type, expected FP32"));
}

TEST_F(StagingTest, ChunksOfTheJobsTypeAreStagedAsFloats) {
  Staging staging(&layout_, {0, kFloats}, grid_, FloatType::kFp16, 2);
  staging.Reset(Generation(1), kSecret);
  const WireFormat format(layout_.statistics());
  for (int chunk = 0; chunk < grid_.count(); ++chunk) {
    const std::vector<float> floats(grid_.size(chunk), -0.375f);
    const ParameterRange range = {grid_.begin(chunk),
                                  grid_.begin(chunk) + grid_.size(chunk)};
    std::vector<uint8_t> data(format.Bytes(FloatType::kFp16, range));
    const uint64_t checksum =
        format.Encode(FloatType::kFp16, range, floats, data.data());
    PushChunkHeader header = HeaderOf(Key(1), grid_.begin(chunk));
    header.type = FloatType::kFp16;
    const auto staged = staging.Stage(header, Payload({data}, checksum));
    ASSERT_TRUE(staged.ok()) << staged.status();
    EXPECT_EQ(*staged, chunk + 1 == grid_.count());
  }
  const float* floats = *staging.Find(Key(1));
  EXPECT_EQ(std::count(floats, floats + kFloats, -0.375f), kFloats);
}

TEST_F(StagingTest, ANanInAStatisticIsSeenBehindShortFloats) {
  TensorSpec mean = testing::Constant("norm.mean", 64, 0, false);
  mean.moving_average = 0.1;
  const ParameterLayout layout({mean}, 1);
  Staging staging(&layout, {0, 64}, ChunkGrid(64, 64), FloatType::kBf16, 2);
  staging.Reset(Generation(1), kSecret);
  std::vector<float> floats(64, 1);
  floats[63] = std::numeric_limits<float>::quiet_NaN();
  const WireFormat format(layout.statistics());
  std::vector<uint8_t> data(format.Bytes(FloatType::kBf16, {0, 64}));
  const uint64_t checksum =
      format.Encode(FloatType::kBf16, {0, 64}, floats, data.data());
  PushChunkHeader header = HeaderOf(Key(1), 0);
  header.type = FloatType::kBf16;
  EXPECT_EQ(staging.Stage(header, Payload({data}, checksum)).status(),
            absl::InvalidArgumentError("gradient g1/w0/i1/s1 is nan in tensor "
                                       "norm.mean at position 63"));
}

TEST_F(StagingTest, NanAndInfinityNameTensorPositionAndValue) {
  std::vector<float> floats(64, 1);
  floats[40] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(staging_.Stage(HeaderOf(Key(1), 64), PayloadOf(floats)).status(),
            absl::InvalidArgumentError("gradient g1/w0/i1/s1 is nan in tensor "
                                       "fc.bias at position 4"));
  floats[40] = 1;
  floats[0] = -std::numeric_limits<float>::infinity();
  EXPECT_EQ(staging_.Stage(HeaderOf(Key(1), 64), PayloadOf(floats)).status(),
            absl::InvalidArgumentError("gradient g1/w0/i1/s1 is -inf in tensor "
                                       "fc.weight at position 64"));
  EXPECT_FALSE(IsStaged(Key(1)));
}

// A chunk of several pieces, which came in parts that split a float.
TEST(LargeChunkTest, ANanIsSeenWhereverItIs) {
  constexpr int64_t kSize = 10000;
  const ParameterLayout layout({testing::Constant("w", kSize, 0, false)}, 1);
  for (const int64_t at : {int64_t{0}, int64_t{1023}, int64_t{1024},
                           int64_t{4095}, int64_t{4096}, kSize - 1}) {
    Staging staging(&layout, {0, kSize}, ChunkGrid(kSize, kSize),
                    FloatType::kFp32, 1);
    staging.Reset(Generation(1), kSecret);
    std::vector<float> floats(kSize, 1);
    floats[at] = std::numeric_limits<float>::quiet_NaN();
    const auto bytes = absl::MakeSpan(
        reinterpret_cast<const uint8_t*>(floats.data()), kSize * sizeof(float));
    const Payload payload(
        {bytes.subspan(0, 4095), bytes.subspan(4095, 3), bytes.subspan(4098)},
        ChunkChecksum(floats));
    EXPECT_EQ(staging.Stage(HeaderOf(Key(1), 0), payload).status(),
              absl::InvalidArgumentError(absl::StrCat(
                  "gradient g1/w0/i1/s1 is nan in tensor w at position ", at)));
    EXPECT_FALSE(staging.Find(Key(1)).ok());
  }
}

TEST_F(StagingTest, AWrongChecksumIsDataLossAndTheChunkIsNotHere) {
  const std::vector<float> good(64, 1);
  std::vector<float> damaged = good;
  damaged[9] = 2;
  const Payload payload(
      {absl::MakeSpan(reinterpret_cast<const uint8_t*>(damaged.data()),
                      damaged.size() * sizeof(float))},
      ChunkChecksum(good));
  EXPECT_EQ(staging_.Stage(HeaderOf(Key(1), 0), payload).status().code(),
            absl::StatusCode::kDataLoss);
  StageAll(Key(1), 5);
  EXPECT_EQ((*staging_.Find(Key(1)))[9], 5);
}

TEST_F(StagingTest, LateChunksOfAnEndedTaskAreRefused) {
  EXPECT_FALSE(*Stage(Key(1), 0, 1));
  staging_.End(Key(1));
  EXPECT_EQ(Stage(Key(1), 1, 1).status(),
            absl::AbortedError("task g1/w0/i1/s1 has ended"));
  EXPECT_EQ(staging_.held(), 0);
  staging_.End(Key(2));  // Before any of it came.
  EXPECT_EQ(Stage(Key(2), 0, 1).status().code(), absl::StatusCode::kAborted);
  EXPECT_FALSE(*Stage(Key(3), 0, 1));
}

TEST_F(StagingTest, AStagedGradientStaysWhenALaterTaskOfItsWorkerEnds) {
  StageAll(Key(1), 1);
  staging_.End(Key(2));
  EXPECT_TRUE(IsStaged(Key(1)));
  EXPECT_TRUE(*Stage(Key(1), 0, 1));  // And its push may still be repeated.
  staging_.End(Key(1));
  EXPECT_FALSE(IsStaged(Key(1)));
  EXPECT_EQ(Stage(Key(1), 0, 1).status().code(), absl::StatusCode::kAborted);
}

TEST_F(StagingTest, ATaskThatEndsAfterALaterOneDoesNotReopenTheLaterOne) {
  StageAll(Key(1), 1);
  staging_.End(Key(2));
  staging_.End(Key(1));
  EXPECT_EQ(Stage(Key(2), 0, 1).status().code(), absl::StatusCode::kAborted);
}

TEST_F(StagingTest, AnEndConcernsOneLifeOfOneWorker) {
  staging_.End(Key(5, /*worker=*/1, /*incarnation=*/1));
  EXPECT_TRUE(Stage(Key(1, /*worker=*/0, /*incarnation=*/1), 0, 1).ok());
  EXPECT_TRUE(Stage(Key(1, /*worker=*/1, /*incarnation=*/2), 0, 1).ok());
}

TEST_F(StagingTest, MoreGradientsThanThereIsRoomForAreRefused) {
  EXPECT_TRUE(Stage(Key(1), 0, 1).ok());
  EXPECT_TRUE(Stage(Key(1, 1), 0, 1).ok());
  EXPECT_EQ(Stage(Key(1, 2), 0, 1).status().code(),
            absl::StatusCode::kResourceExhausted);
  staging_.End(Key(1));
  EXPECT_TRUE(Stage(Key(1, 2), 0, 1).ok());
}

TEST_F(StagingTest, ANewGenerationDropsEverything) {
  StageAll(Key(1), 1);
  staging_.End(Key(1, 1));
  staging_.Reset(Generation(1), kSecret);
  EXPECT_EQ(staging_.held(), 0);
  EXPECT_TRUE(Stage(Key(1, 1), 0, 1).ok());
}

// Chunks of 64 and a member's part that begins at 100: [0, 64) [64, 100) of the
// one, [100, 128) [128, 150) of the other.
TEST(StagingPartsTest, EachMembersPartIsStagedByItself) {
  const ParameterLayout layout = testing::SmallLayout();
  const ChunkGrid grid(kFloats, 64, {100});
  Staging staging(&layout, {0, kFloats}, grid, FloatType::kFp32, 2);
  staging.Reset(Generation(1), kSecret);
  const auto stage = [&](int64_t offset, int64_t size) {
    return staging.Stage(HeaderOf(Key(1), offset),
                         PayloadOf(std::vector<float>(size, 1)));
  };
  EXPECT_FALSE(*stage(128, 22));
  EXPECT_TRUE(*stage(100, 28));  // All of the second part.
  EXPECT_EQ(staging.Find(Key(1)).status().message(),
            "gradient g1/w0/i1/s1 is not staged: 2 of 4 chunks are missing");
  EXPECT_TRUE(*stage(100, 28));  // A repeat is answered at once.
  EXPECT_FALSE(*stage(0, 64));
  EXPECT_TRUE(*stage(64, 36));
  EXPECT_TRUE(staging.Find(Key(1)).ok());
  EXPECT_FALSE(stage(64, 64).ok());  // As if there were no parts.
}

TEST(ChunkGridTest, CutsDivideChunksAndMakeParts) {
  const ChunkGrid grid(10, 4, {-3, 0, 5, 8, 10, 12});
  EXPECT_EQ(grid.count(), 4);
  EXPECT_EQ(grid.begin(2), 5);
  EXPECT_EQ(grid.size(2), 3);
  EXPECT_EQ(grid.size(3), 2);
  EXPECT_EQ(grid.ChunkAt(5), 2);
  EXPECT_EQ(grid.ChunkAt(6), -1);
  EXPECT_EQ(grid.parts(), 3);
  EXPECT_EQ(grid.PartOf(1), 0);
  EXPECT_EQ(grid.PartOf(2), 1);
  EXPECT_EQ(grid.PartOf(3), 2);
  EXPECT_EQ(grid.PartFloats(0), 5);
  EXPECT_EQ(grid.PartFloats(1), 3);
  EXPECT_EQ(grid.PartFloats(2), 2);
}

}  // namespace
}  // namespace sluice
