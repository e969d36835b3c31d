#include "cli/chaos/schedule.h"

#include <map>
#include <set>
#include <tuple>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;

constexpr int kSeeds = 200;

ChaosPlan Plan() {
  return {.kills = 20,
          .stops = 6,
          .cuts = 6,
          .workers = 4,
          .shards = 3,
          .evaluator = true,
          .updates = 2000,
          .checkpoint_every = 10};
}

std::vector<Act> Draw(uint64_t seed, const ChaosPlan& plan) {
  auto acts = DrawSchedule(seed, plan);
  EXPECT_TRUE(acts.ok()) << "seed " << seed << ": " << acts.status();
  return acts.ok() ? *acts : std::vector<Act>();
}

TEST(ScheduleTest, TheSameSeedMeansTheSameSchedule) {
  EXPECT_EQ(Draw(7, Plan()), Draw(7, Plan()));
  std::set<std::string> first;
  for (int seed = 1; seed <= 20; ++seed) {
    std::string all;
    for (const Act& act : Draw(seed, Plan())) all += DescribeWithTime(act);
    first.insert(all);
  }
  EXPECT_EQ(first.size(), 20);
}

TEST(ScheduleTest, ActsOfOneKindGoRoundWorkersShardsAndTheCoordinator) {
  for (int seed = 1; seed <= kSeeds; ++seed) {
    std::map<ActKind, int> kinds;
    std::map<Part, int> killed;
    for (const Act& act : Draw(seed, Plan())) {
      ++kinds[act.kind];
      if (act.kind == ActKind::kKill) ++killed[act.part];
      if (act.part == Part::kWorker) {
        EXPECT_LT(act.number, 4);
      }
      if (act.part != Part::kShard) continue;
      EXPECT_GE(act.number, 1);
      EXPECT_LT(act.number, 3);
    }
    EXPECT_EQ(kinds[ActKind::kKill], 20);
    EXPECT_EQ(kinds[ActKind::kStop], 6);
    EXPECT_EQ(kinds[ActKind::kCut], 6);
    EXPECT_EQ(killed[Part::kWorker], 6);
    EXPECT_EQ(killed[Part::kShard], 6);
    EXPECT_EQ(killed[Part::kLead], 6);
    EXPECT_EQ(killed[Part::kEvaluator], 2);
  }
}

TEST(ScheduleTest, FaultsOfTheStorageGoRoundServersAndKindsLongAndShort) {
  ChaosPlan plan = Plan();
  plan.storage_faults = 12;
  plan.updates = 4000;
  for (int seed = 1; seed <= kSeeds; ++seed) {
    std::map<std::tuple<Part, StorageFault, bool>, int> faults;
    for (const Act& act : Draw(seed, plan)) {
      EXPECT_EQ(act.fault != StorageFault::kNone,
                act.kind == ActKind::kStorage);
      if (act.kind != ActKind::kStorage) continue;
      EXPECT_TRUE(OnServer(act));
      ++faults[{act.part, act.fault, act.leases > 1}];
    }
    EXPECT_EQ(faults.size(), 2 * 3 * 2) << "seed " << seed;
  }
}

TEST(ScheduleTest, ActsOnServersAreAWholeCheckpointApart) {
  ChaosPlan plan = Plan();
  plan.checkpoint_every = 35;
  for (int seed = 1; seed <= kSeeds; ++seed) {
    int64_t server = -1;
    int64_t last = 0;
    for (const Act& act : Draw(seed, plan)) {
      EXPECT_GE(act.at_version, last) << "seed " << seed;
      last = act.at_version;
      EXPECT_EQ(act.after_checkpoint, OnServer(act) && server >= 0);
      if (!OnServer(act)) continue;
      if (server >= 0) {
        EXPECT_GE(act.at_version, server + 2 * plan.checkpoint_every);
      }
      server = act.at_version;
    }
    EXPECT_LE(last, plan.updates * 9 / 10);
  }
}

TEST(ScheduleTest, NoWorkerIsDisturbedAgainBeforeAllOthersWere) {
  std::set<int> first;
  for (int seed = 1; seed <= kSeeds; ++seed) {
    std::vector<int> workers;
    for (const Act& act : Draw(seed, Plan())) {
      if (act.part == Part::kWorker) workers.push_back(act.number);
    }
    ASSERT_GE(workers.size(), 8);
    for (size_t i = 0; i + 4 <= workers.size(); ++i) {
      const std::set<int> four(workers.begin() + i, workers.begin() + i + 4);
      EXPECT_EQ(four.size(), 4) << "seed " << seed << ", from act " << i;
    }
    first.insert(workers[0]);
  }
  EXPECT_EQ(first.size(), 4);  // The seed draws who is first.
}

TEST(ScheduleTest, EveryProcessOfAWorkerHasItsTurnButIsCutOffWithTheOthers) {
  ChaosPlan plan = Plan();
  plan.members = 3;
  std::map<std::string, int> killed;
  for (int seed = 1; seed <= kSeeds; ++seed) {
    std::set<std::string> disturbed;
    for (const Act& act : Draw(seed, plan)) {
      if (OnServer(act) || act.part == Part::kEvaluator) continue;
      const std::string name = NameOfPart(act.part, act.number);
      if (act.kind == ActKind::kKill) ++killed[name];
      if (act.kind == ActKind::kCut) {
        EXPECT_EQ(act.part, Part::kWorker) << name;
      } else {
        EXPECT_TRUE(disturbed.insert(name).second) << name << " twice";
      }
    }
  }
  EXPECT_EQ(killed.size(), 12);
  EXPECT_TRUE(killed.contains("worker-3.2"));
}

TEST(ScheduleTest, HalfOfTheStopsAndCutsOutlastTheLease) {
  for (int seed = 1; seed <= kSeeds; ++seed) {
    int above = 0;
    for (const Act& act : Draw(seed, Plan())) {
      if (act.kind == ActKind::kKill) continue;
      EXPECT_TRUE((act.leases >= 0.2 && act.leases <= 0.5) ||
                  (act.leases >= 1.39 && act.leases <= 2))
          << act.leases;
      above += act.leases > 1;
    }
    EXPECT_EQ(above, 6);
  }
}

TEST(ScheduleTest, WhoIsNotThereIsLeftAlone) {
  ChaosPlan plan = Plan();
  plan.shards = 1;
  plan.evaluator = false;
  for (const Act& act : Draw(1, plan)) {
    EXPECT_TRUE(act.part == Part::kWorker || act.part == Part::kLead);
  }
  plan.servers = false;
  for (const Act& act : Draw(1, plan)) EXPECT_EQ(act.part, Part::kWorker);
}

TEST(ScheduleTest, ActsThatDoNotFitAreRefusedWithWhatWould) {
  ChaosPlan plan = Plan();
  plan.checkpoint_every = 100;
  const auto acts = DrawSchedule(1, plan);
  ASSERT_FALSE(acts.ok());
  EXPECT_THAT(acts.status().message(),
              HasSubstr("32 acts do not fit into 2000 updates with a "
                        "checkpoint every 100: they need "));
}

TEST(ScheduleTest, AnActSaysWhatWhomAndWhen) {
  Act act{.kind = ActKind::kStop,
          .part = Part::kShard,
          .number = 1,
          .at_version = 40,
          .after_checkpoint = true,
          .leases = 1.5};
  EXPECT_EQ(DescribeWithTime(act),
            "version 40, after a checkpoint: stop ps_server-1 for 1.50 leases");
  act = {.kind = ActKind::kKill, .number = 3, .at_version = 7};
  EXPECT_EQ(DescribeWithTime(act), "version 7: kill worker-3");
  act = {.kind = ActKind::kCut, .part = Part::kLead, .leases = 0.25};
  EXPECT_EQ(Describe(act), "cut ps_server-0 off for 0.25 leases");
  act = {.kind = ActKind::kStorage,
         .part = Part::kLead,
         .leases = 0.25,
         .fault = StorageFault::kStalled};
  EXPECT_EQ(Describe(act), "storage of ps_server-0 stalled for 0.25 leases");
}

}  // namespace
}  // namespace sluice
