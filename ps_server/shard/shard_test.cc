#include "ps_server/shard/shard.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "common/exchange_error.h"
#include "gtest/gtest.h"
#include "ps_server/shard/shard_testing.h"
#include "ps_server/shard/tensor_digests.h"

namespace sluice {
namespace {

using ::sluice::testing::FirstRestore;
using ::sluice::testing::HeaderOf;
using ::sluice::testing::Key;
using ::sluice::testing::PayloadOf;

class ShardTest : public ::testing::Test {
 protected:
  explicit ShardTest(ShardOptions options = testing::SmallOptions())
      : shard_(std::move(options)) {}

  // The next decision.
  template <typename What>
  absl::Status Do(What what) {
    absl::StatusOr<Shard::Executed> executed =
        shard_.Execute({shard_.executed() + 1, std::move(what)});
    const absl::Status status = executed.status();
    executed_ = status.ok() ? *std::move(executed) : Shard::Executed();
    return status;
  }
  void RestoreFirst() { ASSERT_TRUE(Do(FirstRestore()).ok()); }
  void StageAll(const GradientKey& key, float value) {
    for (int i = 0; i < shard_.grid().count(); ++i) {
      const std::vector<float> floats(shard_.grid().size(i), value);
      ASSERT_TRUE(
          shard_.Stage(HeaderOf(key, shard_.grid().begin(i)), PayloadOf(floats))
              .ok());
    }
  }
  // Stages one gradient of `value` and commits it alone at rate 1.
  void Update(int64_t sequence, float value) {
    StageAll(Key(sequence), value);
    ASSERT_TRUE(Do(Commit{shard_.version() + 1, 1, {{Key(sequence), 1}}}).ok());
  }
  absl::StatusOr<std::optional<WeightStore::Read>> Pull(int64_t version,
                                                        bool exact) {
    return shard_.Pull({Generation(1), Version(version), exact});
  }
  // All weights of a read, one after the other.
  std::vector<float> Weights(const WeightStore::Read& read) {
    std::vector<float> weights;
    for (int i = 0; i < shard_.grid().count(); ++i) {
      const float* chunk = read.snapshot->chunks[i].data();
      weights.insert(weights.end(), chunk, chunk + shard_.grid().size(i));
    }
    return weights;
  }

  Shard shard_;
  Shard::Executed executed_;  // By the last Do.
};

ShardOptions AdamOptions() {
  ShardOptions options = testing::SmallOptions();
  proto::Adam* adam = options.optimizer.mutable_adam();
  adam->set_beta1(0.9);
  adam->set_beta2(0.99);
  adam->set_epsilon(1e-8);
  return options;
}

class HeldVersionTest : public ShardTest {
 protected:
  HeldVersionTest() : ShardTest(AdamOptions()) {}

  // Every float of every array.
  std::vector<float> Floats(const Shard::HeldVersion& held) {
    std::vector<float> floats;
    for (const Shard::HeldArray& array : held.arrays) {
      for (int i = 0; i < shard_.grid().count(); ++i) {
        const float* chunk = array.chunks[i].data();
        floats.insert(floats.end(), chunk, chunk + shard_.grid().size(i));
      }
    }
    return floats;
  }
};

TEST_F(HeldVersionTest, HoldsTheWeightsAndTheOptimizersState) {
  RestoreFirst();
  Update(1, 2);
  const Shard::HeldVersion held = shard_.Hold();
  EXPECT_EQ(held.version, Version(1));
  ASSERT_EQ(held.arrays.size(), 3);
  EXPECT_EQ(held.arrays[0].name, "weights");
  EXPECT_EQ(held.arrays[1].name, "mean");
  EXPECT_EQ(held.arrays[2].name, "square");
  const auto read = Pull(1, true);
  ASSERT_TRUE(read.ok() && read->has_value());
  const std::vector<float> floats = Floats(held);
  const std::vector<float> weights = Weights(**read);
  ASSERT_EQ(floats.size(), 3 * weights.size());
  EXPECT_TRUE(std::equal(weights.begin(), weights.end(), floats.begin()));
  EXPECT_FLOAT_EQ(floats[150], 0.1f * 2);
  EXPECT_FLOAT_EQ(floats[300], 0.01f * 4);
}

TEST_F(HeldVersionTest, StaysAsItWasAndUpdatesGoOnAsIfNobodyHeldIt) {
  std::vector<std::vector<float>> ends;
  for (const bool hold : {false, true}) {
    const Generation generation(hold ? 2 : 1);
    ASSERT_TRUE(Do(Restore{generation, Version(0), testing::kSecret}).ok());
    std::vector<Shard::HeldVersion> held;
    std::vector<std::vector<float>> before;
    for (int i = 1; i <= 4; ++i) {
      GradientKey key = Key(i);
      key.generation = generation;
      StageAll(key, static_cast<float>(i));
      ASSERT_TRUE(Do(Commit{Version(i), 1, {{key, 1}}}).ok());
      if (!hold) continue;
      held.push_back(shard_.Hold());
      before.push_back(Floats(held.back()));
    }
    for (size_t i = 0; i < held.size(); ++i) {
      EXPECT_EQ(Floats(held[i]), before[i]) << "version " << i + 1;
    }
    ends.push_back(Floats(shard_.Hold()));
  }
  EXPECT_EQ(ends[0], ends[1]);
}

TEST_F(HeldVersionTest, IsWrittenInPlaceAgainWhenItHasBeenLetGo) {
  RestoreFirst();
  Update(1, 2);
  shard_.Hold();
  const int64_t copied = shard_.store().chunks_copied();
  const float* mean = shard_.Hold().arrays[1].chunks[0].data();
  Update(2, 2);
  EXPECT_EQ(shard_.store().chunks_copied(), copied);
  EXPECT_EQ(shard_.Hold().arrays[1].chunks[0].data(), mean);
}

// Version 2 of generation 2 begins and is made later; in generation 1 it was
// executed.
class LaterTest : public HeldVersionTest {
 protected:
  LaterTest() {
    Prepare(1);
    EXPECT_TRUE(Do(Two(1)).ok());
    two_ = Floats(shard_.Hold());
    Three(1);
    three_ = Floats(shard_.Hold());
    Prepare(2);
  }
  static GradientKey In(int64_t generation, int64_t sequence) {
    GradientKey key = Key(sequence);
    key.generation = Generation(generation);
    return key;
  }
  void Prepare(int64_t generation) {
    const Generation begun(generation);
    ASSERT_TRUE(Do(Restore{begun, Version(0), testing::kSecret}).ok());
    StageAll(In(generation, 1), 1);
    ASSERT_TRUE(Do(Commit{Version(1), 1, {{In(generation, 1), 1}}}).ok());
    StageAll(In(generation, 2), 3);
    StageAll(In(generation, 3), 5);
  }
  static Commit Two(int64_t generation) {
    return {Version(2), 1, {{In(generation, 2), 0.5}, {In(generation, 3), 1}}};
  }
  void Three(int64_t generation) {
    StageAll(In(generation, 4), 2);
    ASSERT_TRUE(Do(Commit{Version(3), 1, {{In(generation, 4), 1}}}).ok());
  }
  void BeginTwo() {
    ASSERT_TRUE(shard_.Begin({shard_.executed() + 1, Two(2)}).ok());
  }

  // Asks for the checksum of chunk 0 of version 1, and then makes version 2.
  void AskAndMakeAhead(bool hold) {
    auto read = shard_.Pull({Generation(2), Version(1), true});
    ASSERT_TRUE(read.ok() && read->has_value());
    (*read)->snapshot->chunks[0].Checksum(shard_.grid().size(0));
    if (!hold) {
      shard_.EndRead((*read)->id);
      (*read)->snapshot.reset();
    }
    const int64_t copied = shard_.store().chunks_copied();
    BeginTwo();
    EXPECT_EQ(shard_.store().chunks_copied() > copied, hold);
    while (const auto chunk = shard_.unmade()) shard_.MakeAhead(*chunk);
  }
  void ExpectOnlyTheFirstHasAChecksum() {
    const auto read = shard_.Pull({Generation(2), Version(2), true});
    ASSERT_TRUE(read.ok() && read->has_value());
    const std::vector<ChunkRef>& chunks = (*read)->snapshot->chunks;
    EXPECT_TRUE(chunks[0].has_checksum());
    EXPECT_FALSE(chunks[1].has_checksum());
    const int64_t floats = shard_.grid().size(0);
    EXPECT_EQ(chunks[0].Checksum(floats),
              ChunkChecksum(absl::MakeConstSpan(chunks[0].data(), floats)));
  }

  std::vector<float> two_, three_;  // Weights and states of these versions.
};

TEST_F(LaterTest, AVersionHasTheSameBitsInWhateverOrderItsChunksAreMade) {
  BeginTwo();
  EXPECT_EQ(shard_.version(), Version(2));
  for (const int chunk : {2, 1, 2, 0}) {
    EXPECT_EQ(shard_.unmade(), 0);
    EXPECT_EQ(shard_.staging().held(), 2);
    shard_.Make(chunk);
  }
  EXPECT_EQ(shard_.unmade(), std::nullopt);
  EXPECT_EQ(shard_.staging().held(), 0);
  EXPECT_EQ(Floats(shard_.Hold()), two_);
}

TEST_F(LaterTest, WhoReadsTheVersionBeforeKeepsItWhileTheNextIsMade) {
  const auto read = shard_.Pull({Generation(2), Version(1), true});
  ASSERT_TRUE(read.ok() && read->has_value());
  const std::vector<float> before = Weights(**read);
  BeginTwo();
  shard_.Make(1);
  EXPECT_EQ(Weights(**read), before);
  EXPECT_EQ(Floats(shard_.Hold()), two_);
  EXPECT_EQ(Weights(**read), before);
}

TEST_F(LaterTest, ADecisionThatNeedsNoWeightsLeavesThemUnmade) {
  BeginTwo();
  const Decision discard{shard_.executed() + 1, Discard{{In(2, 9)}}};
  ASSERT_TRUE(shard_.Begin(discard).ok());
  ASSERT_TRUE(shard_.Begin(discard).ok());
  EXPECT_EQ(shard_.unmade(), 0);
}

TEST_F(LaterTest, WhoNeedsTheRoomOfItsGradientsMakesIt) {
  BeginTwo();
  shard_.Make(0);
  StageAll(In(2, 4), 1);
  EXPECT_EQ(shard_.unmade(), 1);
  StageAll(In(2, 5), 1);  // Two, beside the two that are being applied.
  EXPECT_EQ(shard_.unmade(), 1);
  StageAll(In(2, 6), 1);
  EXPECT_EQ(shard_.unmade(), std::nullopt);
  EXPECT_EQ(Floats(shard_.Hold()), two_);
}

TEST_F(LaterTest, WhatIsMadeAheadInPlaceHasAChecksumIfTheOneBeforeHad) {
  AskAndMakeAhead(/*hold=*/false);
  ExpectOnlyTheFirstHasAChecksum();
  EXPECT_EQ(Floats(shard_.Hold()), two_);
}

TEST_F(LaterTest, WhatIsMadeAheadElsewhereHasAChecksumIfTheOneBeforeHad) {
  AskAndMakeAhead(/*hold=*/true);
  ExpectOnlyTheFirstHasAChecksum();
  EXPECT_EQ(Floats(shard_.Hold()), two_);
}

TEST_F(LaterTest, TheNextUpdateIsMadeOfIt) {
  BeginTwo();
  shard_.Make(1);
  Three(2);
  EXPECT_EQ(Floats(shard_.Hold()), three_);
}

TEST_F(HeldVersionTest, AStoreHoldsTheNewestVersionAndNothingElseDoes) {
  RestoreFirst();
  Update(1, 2);
  EXPECT_FALSE(executed_.held.has_value());
  ASSERT_TRUE(Do(Store{Version(1)}).ok());
  const auto held = executed_.held;
  ASSERT_TRUE(held.has_value());
  const std::vector<float> before = Floats(*held);
  EXPECT_EQ(before, Floats(shard_.Hold()));
  Update(2, 2);
  EXPECT_FALSE(executed_.held.has_value());
  EXPECT_EQ(held->version, Version(1));
  EXPECT_EQ(Floats(*held), before);
  EXPECT_NE(Floats(shard_.Hold()), before);
}

TEST_F(HeldVersionTest, AStoreOfAnotherVersionThanTheNewestIsAFault) {
  RestoreFirst();
  Update(1, 2);
  EXPECT_EQ(Do(Store{Version(0)}).message(),
            "shard 0: version 0 is to be stored, but the newest is 1");
}

TEST_F(ShardTest, OnlyRestoreIsAcceptedByAFreshShard) {
  EXPECT_EQ(Pull(0, true).status().code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(shard_.Stage(HeaderOf(Key(1), 0), Payload()).status().code(),
            absl::StatusCode::kFailedPrecondition);
  Shard other(testing::SmallOptions());
  EXPECT_EQ(other.Execute({1, Discard{{Key(1)}}}).status().code(),
            absl::StatusCode::kFailedPrecondition);
  RestoreFirst();
  EXPECT_EQ(shard_.version(), Version(0));
  EXPECT_EQ(shard_.executed(), 1);
}

TEST_F(ShardTest, VersionZeroIsTheLayoutsInitialWeights) {
  RestoreFirst();
  const auto read = Pull(0, true);
  ASSERT_TRUE(read.ok() && read->has_value());
  EXPECT_EQ(Weights(**read),
            testing::SmallLayout().InitialWeights(1, {0, 150}));
}

TEST_F(ShardTest, ACommitAppliesTheWeightedSumInEntryOrder) {
  RestoreFirst();
  StageAll(Key(1, 0), 1e8f);
  StageAll(Key(1, 1), 1);
  StageAll(Key(1, 2), -1e8f);
  StageAll(Key(1, 3), 100);  // Not in this update.
  // 1e8 - 1e8 + 0.5; in any other order the half would be rounded away.
  ASSERT_TRUE(Do(Commit{Version(1),
                        0.5,
                        {{Key(1, 0), 1}, {Key(1, 2), 1}, {Key(1, 1), 0.5f}}})
                  .ok());
  const auto weights = Weights(**Pull(1, true));
  EXPECT_EQ(weights[0], 1 - 0.25f);
  EXPECT_EQ(weights[149], 2 - 0.25f);
  // Room is freed of what was applied, and of nothing else.
  EXPECT_EQ(shard_.staging().held(), 1);
}

TEST_F(ShardTest, ARepeatedDecisionChangesNothing) {
  RestoreFirst();
  Update(1, 1);
  const auto before = Weights(**Pull(1, true));
  EXPECT_TRUE(shard_.Execute({2, Commit{Version(1), 1, {{Key(1), 1}}}}).ok());
  EXPECT_TRUE(shard_.Execute({1, FirstRestore()}).ok());
  EXPECT_EQ(shard_.executed(), 2);
  EXPECT_EQ(Weights(**Pull(1, true)), before);
}

TEST_F(ShardTest, AGapInTheNumbersIsAFaultThatLatches) {
  RestoreFirst();
  const absl::Status gap = shard_.Execute({3, Discard{{Key(1)}}}).status();
  EXPECT_EQ(gap.message(), "shard 0: decision 3 came, expected 2");
  EXPECT_EQ(shard_.Execute({2, Discard{{Key(1)}}}).status(), gap);
  EXPECT_EQ(shard_.executed(), 1);
}

TEST_F(ShardTest, ACommitThatNamesAMissingSliceIsAFaultAndAppliesNothing) {
  RestoreFirst();
  StageAll(Key(1, 0), 1);
  const std::vector<float> floats(64, 1);
  ASSERT_TRUE(shard_.Stage(HeaderOf(Key(1, 1), 0), PayloadOf(floats)).ok());
  const absl::Status fault =
      Do(Commit{Version(1), 1, {{Key(1, 0), 0.5f}, {Key(1, 1), 0.5f}}});
  EXPECT_EQ(fault.message(),
            "shard 0: version 1: gradient g1/w1/i1/s1 is not staged: 2 of 3 "
            "chunks are missing");
  EXPECT_EQ(shard_.version(), Version(0));
  EXPECT_EQ(Weights(**Pull(0, true))[0], 1);
}

TEST_F(ShardTest, ACommitOfAnotherThanTheNextVersionIsAFault) {
  RestoreFirst();
  StageAll(Key(1), 1);
  EXPECT_EQ(Do(Commit{Version(2), 1, {{Key(1), 1}}}).message(),
            "shard 0: version 2 is to be made, but the newest is 0");
}

TEST_F(ShardTest, ACommitThatNamesAGradientTwiceIsAFault) {
  RestoreFirst();
  StageAll(Key(1), 1);
  EXPECT_FALSE(Do(Commit{Version(1), 1, {{Key(1), 1}, {Key(1), 1}}}).ok());
}

TEST_F(ShardTest, ADiscardFreesTheRoomAndRefusesLateChunks) {
  RestoreFirst();
  StageAll(Key(1), 1);
  ASSERT_TRUE(Do(Discard{{Key(1)}}).ok());
  EXPECT_EQ(shard_.staging().held(), 0);
  const std::vector<float> floats(64, 1);
  EXPECT_EQ(
      shard_.Stage(HeaderOf(Key(1), 0), PayloadOf(floats)).status().message(),
      "shard 0: task g1/w0/i1/s1 has ended");
}

TEST_F(ShardTest, AnExactPullGetsItsVersionWaitsForItOrHearsThatItIsGone) {
  RestoreFirst();
  ASSERT_TRUE(Pull(1, true).ok());
  EXPECT_FALSE(Pull(1, true)->has_value());
  Update(1, 1);
  EXPECT_EQ((**Pull(1, true)).snapshot->version, Version(1));
  const auto gone = Pull(0, true);
  EXPECT_EQ(gone.status(),
            WithReason(proto::ExchangeError::VERSION_GONE,
                       absl::AbortedError("shard 0: version 0 was asked for, "
                                          "the newest is 1")));
}

TEST_F(ShardTest, APullOfAVersionOrNewerGetsTheNewest) {
  RestoreFirst();
  Update(1, 1);
  Update(2, 1);
  EXPECT_EQ((**Pull(1, false)).snapshot->version, Version(2));
  EXPECT_FALSE(Pull(3, false)->has_value());
}

TEST_F(ShardTest, APullOfAnotherGenerationIsRefused) {
  RestoreFirst();
  EXPECT_EQ(shard_.Pull({Generation(2), Version(0), true}).status(),
            absl::FailedPreconditionError(
                "shard 0: the pull is of generation 2, expected 1"));
}

TEST_F(ShardTest, ACommitsPinKeepsItsVersionReadableUntilReleased) {
  RestoreFirst();
  StageAll(Key(1), 1);
  ASSERT_TRUE(Do(Commit{Version(1), 1, {{Key(1), 1}}, true}).ok());
  Update(2, 1);
  EXPECT_EQ(Weights(**Pull(1, true))[0], 0);
  for (int64_t s = 3; s < 8; ++s) Update(s, 1);
  EXPECT_TRUE(Pull(1, true).ok());
  ASSERT_TRUE(Do(Release{Version(1)}).ok());
  // A read that began while it was pinned does not keep it open to others.
  EXPECT_EQ(Pull(1, true).status().code(), absl::StatusCode::kAborted);
}

TEST_F(ShardTest, APinDecisionPinsTheNewest) {
  RestoreFirst();
  ASSERT_TRUE(Do(Pin{Version(0)}).ok());
  Update(1, 1);
  EXPECT_TRUE(Pull(0, true)->has_value());
}

TEST(ShardDigestsTest, AreTakenOfEverySoManyThVersionByItsCommitAlone) {
  ShardOptions options = testing::SmallOptions();
  options.digest_every = 2;
  Shard shard(options);
  int64_t number = 0;
  const auto digests = [&](AnyDecision what) {
    const auto executed = shard.Execute({++number, std::move(what)});
    EXPECT_TRUE(executed.ok()) << executed.status();
    return executed->digests.size();
  };
  EXPECT_EQ(digests(FirstRestore()), 0);
  for (int64_t version = 1; version <= 4; ++version) {
    const GradientKey key = Key(version);
    for (int i = 0; i < shard.grid().count(); ++i) {
      const std::vector<float> ones(shard.grid().size(i), 1);
      ASSERT_TRUE(
          shard.Stage(HeaderOf(key, shard.grid().begin(i)), PayloadOf(ones))
              .ok());
    }
    EXPECT_EQ(digests(Commit{Version(version), 1, {{key, 1}}}),
              version % 2 == 0 ? 2 : 0)
        << version;
    EXPECT_EQ(digests(Pin{Version(version)}), 0);
  }
}

TEST(ShardDigestsTest, AreOfTheWholeVersionWhenItIsMadeLater) {
  ShardOptions options = testing::SmallOptions();
  options.digest_every = 1;
  Shard shard(options);
  ASSERT_TRUE(shard.Execute({1, FirstRestore()}).ok());
  for (int i = 0; i < shard.grid().count(); ++i) {
    const std::vector<float> ones(shard.grid().size(i), 1);
    const auto header = HeaderOf(Key(1), shard.grid().begin(i));
    ASSERT_TRUE(shard.Stage(header, PayloadOf(ones)).ok());
  }
  const auto begun = shard.Begin({2, Commit{Version(1), 1, {{Key(1), 1}}}});
  ASSERT_TRUE(begun.ok());
  const auto read = **shard.Pull({Generation(1), Version(1), true});
  for (int i = 0; i < shard.grid().count(); ++i) shard.Make(i);
  EXPECT_EQ(begun->digests, TensorDigests(*read.snapshot, shard.grid(),
                                          options.layout, shard.range()));
}

TEST_F(ShardTest, ReadsThatOverstayAreNamed) {
  RestoreFirst();
  const auto first = **Pull(0, true);
  Update(1, 1);
  const auto second = **Pull(1, true);
  Update(2, 1);
  const auto third = **Pull(2, true);
  EXPECT_TRUE(executed_.ended_reads.empty());
  Update(3, 1);
  EXPECT_EQ(executed_.ended_reads, std::vector<ReadId>{first.id});
}

}  // namespace
}  // namespace sluice
