#include "ps_server/next_generation.h"

#include "gtest/gtest.h"

namespace sluice {
namespace {

proto::Finish FinishOf(const std::string& failure) {
  proto::Finish finish;
  finish.set_failure(failure);
  return finish;
}

TEST(NextGenerationTest, AShardWhoseGenerationIsOverBeginsTheNextOne) {
  const auto next =
      AfterSession(absl::AbortedError("generation 1 is over: shard 1 died"));
  ASSERT_TRUE(next.ok()) << next.status();
  ASSERT_TRUE(next->has_value());
  EXPECT_EQ((*next)->reason, "generation 1 is over: shard 1 died");
}

TEST(NextGenerationTest, TheRunsEndIsTheEnd) {
  const auto shard = AfterSession(FinishOf(""));
  ASSERT_TRUE(shard.ok()) << shard.status();
  EXPECT_FALSE(shard->has_value());
  const auto lead = AfterGeneration(FinishRun{"", "2 epochs"}, std::nullopt);
  ASSERT_TRUE(lead.ok()) << lead.status();
  EXPECT_FALSE(lead->has_value());
}

TEST(NextGenerationTest, AFailedRunEndsItsProcessesWithWhatFailed) {
  const absl::Status failed = absl::AbortedError("worker 1: diverged");
  EXPECT_EQ(AfterSession(FinishOf("worker 1: diverged")).status(), failed);
  EXPECT_EQ(AfterGeneration(FinishRun{"worker 1: diverged", ""}, std::nullopt)
                .status(),
            failed);
}

TEST(NextGenerationTest, ACoordinatorThatIsGoneEndsTheShardsProcess) {
  const absl::Status gone = absl::UnavailableError("no answer for 5.0 s");
  EXPECT_EQ(AfterSession(gone).status(), gone);
}

TEST(NextGenerationTest, AReplacedLeadEndsItsProcess) {
  EXPECT_TRUE(absl::IsPermissionDenied(
      AfterGeneration(Superseded(), "asked to").status()));
}

TEST(NextGenerationTest, TheNextGenerationKnowsHowFarTheLastOnesCame) {
  EndGeneration end{"shard 1 died", Version(7), 3};
  end.workers = {WorkerId(0), WorkerId(5)};
  end.evaluator = false;
  const auto next = AfterGeneration(end, "asked to");
  ASSERT_TRUE(next.ok()) << next.status();
  ASSERT_TRUE(next->has_value());
  EXPECT_EQ((*next)->reason, "shard 1 died");

  Resumption resumption;
  resumption.generation = Generation(4);
  resumption.point.generation = Generation(2);
  resumption.point.version = Version(5);
  resumption.updates_lost = 2;
  CoordinatorOptions core;
  const GenerationStart start =
      BeginGeneration(resumption, (*next)->recovery, true, &core);
  EXPECT_EQ(start.generation, Generation(4));
  EXPECT_EQ(start.parent, Generation(2));
  EXPECT_EQ(start.restored, Version(5));
  EXPECT_EQ(start.reason, "shard 1 died");
  EXPECT_EQ(core.generation, Generation(4));
  ASSERT_TRUE(core.resume.has_value());
  EXPECT_EQ(core.resume->version, Version(5));
  EXPECT_TRUE(core.recovery.possible);
  EXPECT_EQ(core.recovery.furthest, Version(7));
  EXPECT_EQ(core.recovery.fruitless, 3);
  EXPECT_EQ(core.recovery.updates_lost, 2);
  EXPECT_TRUE(core.recovery.begun);
  EXPECT_EQ(core.recovery.workers, end.workers);
  EXPECT_FALSE(core.recovery.evaluator);
  EXPECT_EQ(core.recovery.stop, "asked to");
}

TEST(NextGenerationTest, WithoutARunFolderThereIsOneGeneration) {
  CoordinatorOptions core;
  const GenerationStart start =
      BeginGeneration(std::nullopt, RecoveryOptions(), false, &core);
  EXPECT_EQ(start.generation, Generation(1));
  EXPECT_EQ(start.parent, Generation(0));
  EXPECT_FALSE(core.resume.has_value());
  EXPECT_FALSE(core.recovery.possible);
}

}  // namespace
}  // namespace sluice
