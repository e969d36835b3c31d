#include "cli/chaos/judgement.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace sluice {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// A run under SYNC that kept everything.
ChaosOutcome Good() {
  ChaosOutcome outcome{.seed = 7, .policy = "SYNC", .same_bits = true};
  outcome.acts = {{.number = 1, .at_version = 5},
                  {.part = Part::kShard, .number = 1, .at_version = 9},
                  {.kind = ActKind::kStop, .leases = 1.5}};
  outcome.done = {{absl::Seconds(1), 1, 5},
                  {absl::Seconds(2), 1, 9},
                  {absl::Seconds(3), 2, 8}};
  outcome.longest_wait = absl::Seconds(2.5);
  outcome.ledger.generations = {{.decided = Version(10),
                                 .kept = Version(8),
                                 .tasks = 10,
                                 .applied = 8,
                                 .lost = 2},
                                {.restored = Version(8),
                                 .decided = Version(20),
                                 .kept = Version(20),
                                 .tasks = 12,
                                 .applied = 12}};
  outcome.ledger.mini_batches = 20;
  outcome.undisturbed = {.version = 20,
                         .seconds = 1.5,
                         .test_accuracy = 0.85,
                         .test_loss = 0.4,
                         .weights_sha256 = "abc"};
  outcome.disturbed = outcome.undisturbed;
  outcome.tolerance = 0.02;
  return outcome;
}

// Whether the finding `name`, and only it, is broken; its detail.
std::string OnlyBroken(const ChaosOutcome& outcome, const std::string& name) {
  std::string detail = "nothing is broken";
  for (const Judgement& finding : Judge(outcome)) {
    EXPECT_EQ(finding.holds, finding.name != name) << finding.name;
    if (!finding.holds) detail = finding.detail;
  }
  EXPECT_FALSE(AllHold(Judge(outcome)));
  EXPECT_EQ(nlohmann::json::parse(ChaosJson(outcome))["holds"], false);
  EXPECT_THAT(DescribeChaos(outcome), HasSubstr("BROKEN  " + name));
  return detail;
}

TEST(JudgementTest, ARunThatKeptEverythingHolds) {
  EXPECT_TRUE(AllHold(Judge(Good())));
  EXPECT_EQ(
      DescribeChaos(Good()),
      "                kill    stop     cut storage\n"
      "workers            1       1       0       0\n"
      "shards             1       0       0       0\n"
      "coordinator        0       0       0       0\n"
      "evaluator          0       0       0       0\n"
      "2 generations, 2 updates lost and made again; the longest wait for an "
      "update 2.5 s\n"
      "holds   end       20 updates in 1.5 s, undisturbed 20 in 1.5 s\n"
      "holds   acts      3 of 3 done\n"
      "holds   ledger    22 gradients: 20 applied, 0 cancelled, 0 dropped, 0 "
      "rejected, 2 lost; 20 mini-batches once each\n"
      "holds   rollback  no generation went back behind the newest whole "
      "checkpoint\n"
      "holds   accuracy  0.8500, undisturbed 0.8500, expected within 0.02\n"
      "holds   bits      the same as undisturbed: abc\n");
}

TEST(JudgementTest, AProgramReadsActsAndFindings) {
  const auto json = nlohmann::json::parse(ChaosJson(Good()));
  EXPECT_EQ(json["holds"], true);
  EXPECT_EQ(json["seed"], 7);
  EXPECT_EQ(json["acts"][1]["part"], "ps_server-1");
  EXPECT_EQ(json["acts"][1]["version"], 9);
  EXPECT_EQ(json["updates_lost"], 2);
  EXPECT_EQ(json["gradients"]["lost"], 2);
  EXPECT_EQ(json["findings"]["bits"]["holds"], true);
}

TEST(JudgementTest, AnActThatWasNeverDueIsNamed) {
  ChaosOutcome outcome = Good();
  outcome.done.pop_back();
  EXPECT_EQ(OnlyBroken(outcome, "acts"),
            "2 of 3 done; never due: version 0: stop worker-0 for 1.50 leases");
}

TEST(JudgementTest, ALedgerThatIsNotExactSaysTheFirstError) {
  ChaosOutcome outcome = Good();
  outcome.ledger.errors = {"mini-batch 3 is in two updates", "another"};
  EXPECT_EQ(OnlyBroken(outcome, "ledger"), "mini-batch 3 is in two updates");
}

TEST(JudgementTest, AGenerationThatLostAWholeCheckpointIsBroken) {
  ChaosOutcome outcome = Good();
  outcome.rolled_back = "generation 2 went back to version 0";
  EXPECT_EQ(OnlyBroken(outcome, "rollback"),
            "generation 2 went back to version 0");
}

TEST(JudgementTest, AnAccuracyBeyondTheToleranceIsBroken) {
  ChaosOutcome outcome = Good();
  outcome.disturbed.test_accuracy = 0.871;
  EXPECT_EQ(OnlyBroken(outcome, "accuracy"),
            "0.8710, undisturbed 0.8500, expected within 0.02");
  outcome.disturbed.test_accuracy.reset();
  EXPECT_EQ(OnlyBroken(outcome, "accuracy"), "not evaluated");
}

TEST(JudgementTest, OfARegressionTheLossIsJudged) {
  ChaosOutcome outcome = Good();
  outcome.undisturbed.test_accuracy.reset();
  outcome.disturbed.test_accuracy.reset();
  EXPECT_TRUE(AllHold(Judge(outcome)));
  outcome.disturbed.test_loss = 0.43;
  EXPECT_EQ(OnlyBroken(outcome, "test loss"),
            "0.4300, undisturbed 0.4000, expected within 0.02");
}

TEST(JudgementTest, OtherBitsAreBrokenWhereTheyArePromised) {
  ChaosOutcome outcome = Good();
  outcome.disturbed.weights_sha256 = "def";
  EXPECT_EQ(OnlyBroken(outcome, "bits"), "def, undisturbed abc");
  outcome.same_bits = false;
  EXPECT_TRUE(AllHold(Judge(outcome)));
  // No weights are no equal weights.
  outcome.same_bits = true;
  outcome.disturbed.weights_sha256.clear();
  outcome.undisturbed.weights_sha256.clear();
  OnlyBroken(outcome, "bits");
}

TEST(JudgementTest, OfRunsThatLeftOutOtherMiniBatchesTheBitsAreNotJudged) {
  ChaosOutcome outcome = Good();
  outcome.disturbed.weights_sha256 = "def";
  outcome.disturbed.counters.batches_left_out = 3;
  EXPECT_TRUE(AllHold(Judge(outcome)));
  EXPECT_THAT(DescribeChaos(outcome), Not(HasSubstr("bits")));
  outcome.undisturbed.counters.batches_left_out = 3;
  OnlyBroken(outcome, "bits");
}

TEST(JudgementTest, OfARunThatFailedTheReasonStands) {
  ChaosOutcome outcome = Good();
  outcome.failure = "no update for 30s; it waits for shard 1";
  EXPECT_EQ(OnlyBroken(outcome, "end"), outcome.failure);
}

}  // namespace
}  // namespace sluice
