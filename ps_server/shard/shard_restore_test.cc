// A shard that begins from what another held of a version.
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

// One update of `shard` from the gradient `value` everywhere.
void MakeNext(Shard& shard, float value) {
  const Version version = shard.version() + 1;
  GradientKey key = Key(version.value());
  key.generation = shard.generation();
  for (int i = 0; i < shard.grid().count(); ++i) {
    const std::vector<float> floats(shard.grid().size(i), value);
    ASSERT_TRUE(
        shard.Stage(HeaderOf(key, shard.grid().begin(i)), PayloadOf(floats))
            .ok());
  }
  const Decision commit{shard.executed() + 1, Commit{version, 1, {{key, 1}}}};
  ASSERT_EQ(shard.Execute(commit).status(), absl::OkStatus());
}

std::vector<std::vector<float>> ArraysOf(Shard& shard) {
  std::vector<std::vector<float>> arrays;
  for (const Shard::HeldArray& array : shard.Hold().arrays) {
    std::vector<float>& floats = arrays.emplace_back();
    for (int i = 0; i < shard.grid().count(); ++i) {
      const float* chunk = array.chunks[i].data();
      floats.insert(floats.end(), chunk, chunk + shard.grid().size(i));
    }
  }
  return arrays;
}

const Restore kSecondRestore{Generation(2), Version(3), testing::kSecret,
                             Generation(1)};

TEST(ShardRestoreTest, AStoredVersionGoesOnWithTheSameBits) {
  ShardOptions momentum = testing::SmallOptions();
  momentum.optimizer.mutable_sgd()->set_momentum(0.9);
  ShardOptions adagrad = testing::SmallOptions();
  adagrad.optimizer.mutable_adagrad()->set_initial_accumulator(0.1);
  ShardOptions adam = testing::SmallOptions();
  adam.optimizer.mutable_adam()->set_beta1(0.9);
  adam.optimizer.mutable_adam()->set_beta2(0.99);
  adam.optimizer.mutable_adam()->set_epsilon(1e-8);
  for (ShardOptions options :
       {testing::SmallOptions(), momentum, adagrad, adam}) {
    Shard first(options);
    ASSERT_TRUE(first.Execute({1, FirstRestore()}).ok());
    for (const float value : {1.0f, -0.3f, 0.7f}) MakeNext(first, value);
    options.stored_version = [arrays = ArraysOf(first)](const Restore& of,
                                                        ParameterRange range) {
      EXPECT_EQ(of.checkpoint, Generation(1));
      EXPECT_EQ(of.version, Version(3));
      EXPECT_EQ(range.size(), testing::kFloats);
      return arrays;
    };
    Shard second(options);
    ASSERT_EQ(second.Execute({1, kSecondRestore}).status(), absl::OkStatus());
    EXPECT_EQ(second.generation(), Generation(2));
    EXPECT_EQ(ArraysOf(second), ArraysOf(first));
    for (Shard* shard : {&first, &second}) {
      MakeNext(*shard, 0.2f);
      MakeNext(*shard, -0.1f);
    }
    EXPECT_EQ(ArraysOf(second), ArraysOf(first));
  }
}

TEST(ShardRestoreTest, WhatCannotBeReadIsSaid) {
  ShardOptions options = testing::SmallOptions();
  Shard none(options);
  EXPECT_EQ(none.Execute({1, kSecondRestore}).status().message(),
            "shard 0: version 3 is to be restored, but there are no "
            "checkpoints");
  options.stored_version =
      [](const Restore&,
         ParameterRange) -> absl::StatusOr<std::vector<std::vector<float>>> {
    return absl::DataLossError("run/checkpoints/1-3: is cut");
  };
  Shard damaged(options);
  EXPECT_EQ(damaged.Execute({1, kSecondRestore}).status().message(),
            "shard 0: run/checkpoints/1-3: is cut");
  EXPECT_FALSE(damaged.restored());
}

}  // namespace
}  // namespace sluice
