// SYNC where a shard has room for fewer gradients than an update takes.
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "ps_server/shard/shard.h"
#include "ps_server/shard/shard_testing.h"

namespace sluice {
namespace {

using ::sluice::testing::FirstRestore;
using ::sluice::testing::HeaderOf;
using ::sluice::testing::Key;
using ::sluice::testing::PayloadOf;

TensorSpec Statistic() {
  TensorSpec tensor = testing::Constant("bn.mean", 50, 2, false);
  tensor.moving_average = 0.3;
  return tensor;
}

std::vector<float> GradientOf(int64_t turn) {
  std::vector<float> floats(testing::kFloats);
  for (size_t i = 0; i < floats.size(); ++i) {
    floats[i] = 0.1f * static_cast<float>(i) + static_cast<float>(turn) / 3;
  }
  return floats;
}

// A shard with room for two gradients, of which an update takes more.
class FoldingShardTest : public ::testing::Test {
 protected:
  FoldingShardTest() : shard_(OptionsWithRoom(2)) {
    EXPECT_TRUE(Do(FirstRestore()).ok());
  }

  // The next decision.
  template <typename What>
  absl::Status Do(What what) {
    return shard_.Execute({shard_.executed() + 1, std::move(what)}).status();
  }
  // All weights of version 1, one after the other.
  static std::vector<float> WeightsOf(Shard* shard) {
    const auto read = shard->Pull({Generation(1), Version(1), true});
    EXPECT_TRUE(read.ok() && read->has_value());
    std::vector<float> weights;
    for (int i = 0; i < shard->grid().count(); ++i) {
      const float* chunk = (*read)->snapshot->chunks[i].data();
      weights.insert(weights.end(), chunk, chunk + shard->grid().size(i));
    }
    return weights;
  }

  static ShardOptions OptionsWithRoom(int gradients) {
    ShardOptions options = testing::SmallOptions();
    options.layout = ParameterLayout(
        {testing::Constant("fc.weight", 100, 1, true), Statistic()}, 1);
    options.initial_weights = testing::InitializersOf(options.layout);
    options.staged_gradients = gradients;
    return options;
  }
  // Task `sequence` of worker `sequence` has turn `sequence`.
  static GradientKey KeyOf(int64_t sequence) { return Key(sequence, sequence); }
  bool Admits(int64_t turn, int64_t offset = 0) {
    return shard_.Admits(HeaderOf(KeyOf(turn), offset, turn), "");
  }
  // Stages the whole gradient of that turn on `shard`.
  static void StageTurn(int64_t turn, Shard* shard) {
    const std::vector<float> all = GradientOf(turn);
    for (int i = 0; i < shard->grid().count(); ++i) {
      const auto from = all.begin() + shard->grid().begin(i);
      const std::vector<float> floats(from, from + shard->grid().size(i));
      const auto header = HeaderOf(KeyOf(turn), shard->grid().begin(i), turn);
      ASSERT_TRUE(shard->Admits(header, ""));
      ASSERT_TRUE(shard->Stage(header, PayloadOf(floats)).ok());
    }
  }
  static std::vector<CommitEntry> Entries(int64_t from, int64_t to) {
    std::vector<CommitEntry> entries;
    for (int64_t turn = from; turn < to; ++turn) {
      entries.push_back({KeyOf(turn), 1.0f / 5});
    }
    return entries;
  }
  static double Total() { return 5 * static_cast<double>(1.0f / 5); }

  Shard shard_;
};

TEST_F(FoldingShardTest, AnUpdateThatIsFoldedHasTheBitsOfOneThatIsNot) {
  Shard roomy(OptionsWithRoom(5));
  ASSERT_TRUE(roomy.Execute({1, FirstRestore()}).ok());
  for (const int64_t turn : {4, 2, 0, 1, 3}) StageTurn(turn, &roomy);
  ASSERT_TRUE(roomy.Execute({2, Commit{Version(1), 0.1, Entries(0, 5)}}).ok());

  for (const int64_t turn : {1, 0}) StageTurn(turn, &shard_);
  ASSERT_TRUE(Do(Fold{Version(1), Total(), Entries(0, 1)}).ok());
  StageTurn(2, &shard_);
  ASSERT_TRUE(Do(Fold{Version(1), Total(), Entries(1, 3)}).ok());
  for (const int64_t turn : {4, 3}) StageTurn(turn, &shard_);
  Commit commit{Version(1), 0.1, Entries(0, 5)};
  commit.folded = 3;
  ASSERT_TRUE(Do(commit).ok());
  EXPECT_EQ(shard_.staging().held(), 0);

  EXPECT_EQ(WeightsOf(&shard_), WeightsOf(&roomy));
}

TEST_F(FoldingShardTest, ThereIsRoomForThoseWhoseTurnIsNext) {
  EXPECT_TRUE(Admits(1));
  EXPECT_FALSE(Admits(2));
  StageTurn(1, &shard_);
  EXPECT_FALSE(Admits(2)) << "turn 0 must find room";
  StageTurn(0, &shard_);
  EXPECT_FALSE(Admits(2));
  ASSERT_TRUE(Do(Fold{Version(1), Total(), Entries(0, 1)}).ok());
  EXPECT_TRUE(Admits(2));
  EXPECT_FALSE(Admits(3));
  EXPECT_EQ(shard_.staging().held(), 1);
  // The next update begins with the first turn.
  ASSERT_TRUE(Do(Fold{Version(1), Total(), Entries(1, 2)}).ok());
  for (const int64_t turn : {2, 3}) StageTurn(turn, &shard_);
  ASSERT_TRUE(Do(Fold{Version(1), Total(), Entries(2, 4)}).ok());
  StageTurn(4, &shard_);
  Commit commit{Version(1), 0.1, Entries(0, 5)};
  commit.folded = 4;
  ASSERT_TRUE(Do(commit).ok());
  const auto later = [](int64_t turn) {
    return HeaderOf(Key(9, turn, 2), 0, turn);
  };
  EXPECT_TRUE(shard_.Admits(later(0), ""));
  EXPECT_FALSE(shard_.Admits(later(2), ""));
}

// Its mini-batch goes to another worker, whose push may come before the
// Discard of the task before.
TEST_F(FoldingShardTest, WhatEndedHoldsItsRoomUntilItIsDiscarded) {
  StageTurn(1, &shard_);
  const std::vector<float> chunk(shard_.grid().size(0), 1);
  ASSERT_TRUE(shard_.Stage(HeaderOf(KeyOf(0), 0, 0), PayloadOf(chunk)).ok());
  const PushChunkHeader again = HeaderOf(Key(9, 7), 0, 0);
  EXPECT_FALSE(shard_.Admits(again, ""));
  ASSERT_TRUE(Do(Discard{{KeyOf(0)}}).ok());
  EXPECT_TRUE(shard_.Admits(again, ""));
}

// Stage says what is wrong with it.
TEST_F(FoldingShardTest, WhoHasNoGrantForTheTurnDoesNotWaitForIt) {
  PushChunkHeader header = HeaderOf(KeyOf(4), 0, 4);
  EXPECT_FALSE(shard_.Admits(header, ""));
  header.grant[16] = 5;  // Its turn is to come, too.
  EXPECT_TRUE(shard_.Admits(header, ""));
  const std::vector<float> chunk(shard_.grid().size(0), 1);
  EXPECT_EQ(shard_.Stage(header, PayloadOf(chunk)).status().code(),
            absl::StatusCode::kPermissionDenied);
}

TEST_F(FoldingShardTest, AFoldOrACommitThatDoesNotFitIsNotExecuted) {
  StageTurn(0, &shard_);
  EXPECT_EQ(Do(Fold{Version(2), Total(), Entries(0, 1)}).code(),
            absl::StatusCode::kInternal);
}

TEST_F(FoldingShardTest, ACommitOfOthersThanWereFoldedIsNotExecuted) {
  for (const int64_t turn : {0, 1}) StageTurn(turn, &shard_);
  ASSERT_TRUE(Do(Fold{Version(1), Total(), Entries(0, 1)}).ok());
  Commit commit{Version(1), 0.1, Entries(0, 2)};
  commit.folded = 1;
  commit.entries[0].weight = 1;
  const absl::Status status = Do(commit);
  EXPECT_EQ(status.message(),
            "shard 0: version 1 is to be made with 1 gradients that were "
            "folded, but 1 were, or others");
}

TEST_F(FoldingShardTest, ACommitThatSaysAnotherNumberIsNotExecuted) {
  StageTurn(0, &shard_);
  ASSERT_TRUE(Do(Fold{Version(1), Total(), Entries(0, 1)}).ok());
  Commit commit{Version(1), 0.1, Entries(0, 1)};
  commit.folded = 2;
  EXPECT_EQ(Do(commit).code(), absl::StatusCode::kInternal);
}

}  // namespace
}  // namespace sluice
