#include "sim/advice/choices.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/job/resolved_job.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::Not;

ResolvedJob Job(const std::string& sync, int workers) {
  auto job = ParseJob(
      absl::StrCat("cluster { workers: ", workers, " } sync { ", sync,
                   " } data { linear_regression { features: 3 } } model { "
                   "layer { dense { units: 1 } } } stop { epochs: 1 }"),
      "test", {});
  EXPECT_TRUE(job.ok()) << job.status();
  return *std::move(job);
}

std::vector<std::string> Names(const std::string& sync, int workers,
                               const ChoiceRange& range = {}) {
  std::vector<std::string> names;
  for (const Choice& choice : ChoicesFor(Job(sync, workers).job, range)) {
    names.push_back(choice.name);
  }
  return names;
}

TEST(ChoicesTest, AreEachPolicyWithAQuarterHalfAndThreeQuartersOrAdaptive) {
  EXPECT_THAT(
      Names("policy: SYNC", 16),
      ElementsAre("SYNC (the job's)", "K_SYNC, K 4", "K_SYNC, K 8",
                  "K_SYNC, K 12", "K_SYNC, adaptive K from 2",
                  "K_BATCH_SYNC, K 4", "K_BATCH_SYNC, K 8",
                  "K_BATCH_SYNC, K 16", "K_BATCH_SYNC, adaptive K from 2",
                  "ASYNC", "K_ASYNC, K 4", "K_ASYNC, K 8", "K_ASYNC, K 12",
                  "K_ASYNC, adaptive K from 2", "K_BATCH_ASYNC, K 4",
                  "K_BATCH_ASYNC, K 8", "K_BATCH_ASYNC, K 16",
                  "K_BATCH_ASYNC, adaptive K from 2"));
}

TEST(ChoicesTest, WhatIsAnotherChoiceByItsNatureIsLeftOut) {
  EXPECT_THAT(Names("policy: ASYNC", 4, {.policies = {}, .ks = {1, 4}}),
              ElementsAre("ASYNC (the job's)", "SYNC", "K_SYNC, K 1",
                          "K_BATCH_SYNC, K 4", "K_BATCH_ASYNC, K 4"));
  EXPECT_THAT(Names("policy: SYNC", 1),
              ElementsAre("SYNC (the job's)", "ASYNC"));
}

TEST(ChoicesTest, WhatIsTheJobsOwnByAnotherNameIsLeftOut) {
  const ChoiceRange range = {.policies = {}, .ks = {2}};
  // K is by default the number of workers.
  EXPECT_THAT(
      Names("policy: K_SYNC", 4, range),
      ElementsAre("K_SYNC, K 4 (the job's)", "K_SYNC, K 2", "K_BATCH_SYNC, K 2",
                  "ASYNC", "K_ASYNC, K 2", "K_BATCH_ASYNC, K 2"));
  for (const char* same :
       {"policy: K_ASYNC k: 4",
        "policy: K_SYNC k: 4 k_schedule { adaptive {} }",
        "policy: K_ASYNC k: 4 staleness { bound: 1 action: DROP }"}) {
    EXPECT_THAT(Names(same, 4, range), Not(Contains("SYNC"))) << same;
  }
  for (const char* same : {"policy: K_ASYNC k: 1", "policy: K_BATCH_ASYNC k: 1",
                           "policy: K_ASYNC k: 1 warm_start_updates: 9"}) {
    EXPECT_THAT(Names(same, 4, range), Not(Contains("ASYNC"))) << same;
  }
  EXPECT_THAT(
      Names("policy: K_BATCH_SYNC k: 1", 4, {.policies = {}, .ks = {1}}),
      Not(Contains("K_SYNC, K 1")));
  EXPECT_THAT(Names("policy: K_ASYNC k: 2 k_schedule { adaptive { max_k: 2 } }",
                    4, range),
              Not(Contains("K_ASYNC, K 2")));
  EXPECT_THAT(Names("policy: SYNC staleness { bound: 0 action: CANCEL }", 4,
                    {.policies = {}, .ks = {2}}),
              ElementsAre("SYNC (the job's)", "K_SYNC, K 2",
                          "K_BATCH_SYNC, K 2", "ASYNC", "K_ASYNC, K 2"));
}

TEST(ChoicesTest, WhatDiffersInSomeUpdatesIsNotLeftOut) {
  const ChoiceRange range = {.policies = {}, .ks = {2}};
  for (const char* other :
       {"policy: K_SYNC k: 3", "policy: K_BATCH_SYNC k: 4",
        "policy: K_SYNC k: 4 gradients_per_update: 8 warm_start_updates: 9",
        "policy: K_SYNC k: 4 k_schedule { by_version { change { "
        "from_version: 9 k: 3 } } }"}) {
    EXPECT_THAT(Names(other, 4, range), Contains("SYNC")) << other;
  }
  EXPECT_THAT(Names("policy: K_BATCH_SYNC k: 2 staleness { bound: 1 "
                    "action: CANCEL }",
                    4, range),
              Contains("K_BATCH_ASYNC, K 2"));
  for (const char* other :
       {"policy: K_SYNC k: 1", "policy: K_BATCH_SYNC k: 1",
        "policy: K_ASYNC k: 1 k_schedule { adaptive {} }"}) {
    EXPECT_THAT(Names(other, 4, range), Contains("ASYNC")) << other;
  }
}

TEST(ChoicesTest, TheJobsOwnIsAmongThemUnlessItsPolicyIsNotAskedFor) {
  EXPECT_EQ(Names("policy: K_SYNC k: 5", 16).front(),
            "K_SYNC, K 5 (the job's)");
  EXPECT_THAT(
      Names("policy: K_SYNC k: 5", 16, {.policies = {proto::SYNC}, .ks = {}}),
      ElementsAre("SYNC"));
  // The job's own K is not tried a second time.
  EXPECT_THAT(Names("policy: K_SYNC k: 8", 16), Not(Contains("K_SYNC, K 8")));
}

TEST(ChoicesTest, AKThatNoPolicyIsTriedWithIsNamed) {
  const ResolvedJob job = Job("policy: SYNC", 4);
  const auto error = [&](const ChoiceRange& range) {
    return std::string(CheckKs(job.job, range).message());
  };
  EXPECT_EQ(error({.policies = {}, .ks = {1, 3, 100}}), "");
  EXPECT_EQ(error({.policies = {proto::K_SYNC, proto::K_ASYNC}, .ks = {2, 4}}),
            "K 4: expected one that a policy is tried with; of 4 workers "
            "K_SYNC is tried with 1 to 3, K_ASYNC is tried with 2 to 3");
  EXPECT_EQ(error({.policies = {proto::SYNC}, .ks = {3}}),
            "K 3: expected one that a policy is tried with; of 4 workers none "
            "of those asked for has a K");
}

TEST(ChoicesTest, KeepWhatElseTheJobSaysOfSync) {
  const auto choices = ChoicesFor(Job("policy: ASYNC local_steps: 3 "
                                      "staleness { bound: 2 action: DROP }",
                                      4)
                                      .job,
                                  {.policies = {proto::K_ASYNC}, .ks = {2}});
  ASSERT_EQ(choices.size(), 1);
  EXPECT_EQ(FormatSyncLine(choices[0].sync),
            "policy: K_ASYNC k: 2 staleness { bound: 2 action: DROP } "
            "local_steps: 3");
}

TEST(ShortestSyncTest, LeavesOutWhatWouldBeFilledInAlike) {
  const auto shortest = [](const std::string& sync) {
    return FormatSyncLine(ShortestSync(Job(sync, 4).job));
  };
  EXPECT_EQ(shortest(""), "policy: SYNC");
  EXPECT_EQ(shortest("policy: SYNC k: 3 gradients_per_update: 8"),
            "policy: SYNC gradients_per_update: 8");
  EXPECT_EQ(shortest("policy: K_SYNC k: 4 on_shortage: SHRINK"),
            "policy: K_SYNC k: 4 on_shortage: SHRINK");
}

TEST(ShortestSyncTest, OfEveryChoiceIsAJobThatIsAccepted) {
  for (const Choice& choice : ChoicesFor(Job("policy: SYNC", 16).job, {})) {
    const ResolvedJob job = Job(FormatSyncLine(choice.sync), 16);
    EXPECT_EQ(FormatSyncLine(ShortestSync(job.job)),
              FormatSyncLine(choice.sync));
  }
}

}  // namespace
}  // namespace sluice
