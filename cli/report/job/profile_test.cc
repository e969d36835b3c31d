#include "cli/report/job/profile.h"

#include <sstream>

#include "absl/strings/str_cat.h"
#include "common/job/stage_plan.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr double kNear = 1e-9;

// Four micro-batches a mini-batch; "tanh2" has no weights.
ResolvedJob Job(const std::string& group) {
  const auto job = ParseJob(absl::StrCat(R"(
          data { linear_regression { features: 8 } batch_size: 20 }
          model { loss: MEAN_SQUARED_ERROR layer { dense { units: 8 } }
                  layer { dense { units: 8 } } layer { tanh {} }
                  layer { dense { units: 8 } } layer { dense { units: 1 } } }
          worker { micro_batch: 6 )",
                                         group, R"( } stop { updates: 1 })"),
                            "test", {});
  EXPECT_TRUE(job.ok()) << job.status();
  return *job;
}

// dense0, dense1 with tanh2, dense3 and dense4 take these seconds, of which a
// quarter is forward.
std::vector<LayerTime> Times(const ResolvedJob& job,
                             const std::vector<double>& seconds) {
  std::vector<LayerTime> times;
  for (const ModelStage& part : SmallestStages(job.model)) {
    const double all = seconds[times.size()];
    times.push_back({part, all / 4, 3 * all / 4});
  }
  return times;
}

TEST(ProfileTest, AWorkerOfOneProcessHasNoStages) {
  const ResolvedJob job = Job("");
  const ProfileReport report =
      MakeProfileReport(job, Times(job, {0.1, 0.2, 0.3, 0.4}));
  EXPECT_EQ(report.samples, 6);
  EXPECT_EQ(report.passes, 4);
  EXPECT_NEAR(report.batch_seconds, 4, kNear);
  EXPECT_FALSE(report.of_job.has_value());
  EXPECT_FALSE(report.by_time.has_value());
  std::ostringstream text;
  PrintProfile(job, report, text);
  EXPECT_THAT(text.str(),
              HasSubstr("\ndense1 to tanh2     50.000 ms    150.000"));
  EXPECT_THAT(text.str(),
              HasSubstr("delays { compute { constant { ms: 4000 } } }"));
}

TEST(ProfileTest, TheLimitIsBalanceAndBubble) {
  const ResolvedJob job = Job(R"(group { pipeline_stages: 2 cuts: "dense3" })");
  const ProfileReport report =
      MakeProfileReport(job, Times(job, {0.1, 0.1, 0.1, 0.1}));
  ASSERT_TRUE(report.of_job.has_value());
  // m / (m + 1) of two processes: 4 of 5 passes.
  EXPECT_NEAR(report.of_job->balance, 1, kNear);
  EXPECT_NEAR(report.of_job->bubble, 0.2, kNear);
  EXPECT_NEAR(report.of_job->limit, 1.6, kNear);
}

TEST(ProfileTest, ModelsAreCutByTime) {
  // By multiply-adds before dense1: 64 beside 137.
  const ResolvedJob job = Job(R"(group { pipeline_stages: 2 cuts: "dense1" })");
  const ProfileReport report =
      MakeProfileReport(job, Times(job, {0.1, 0.1, 0.1, 0.3}));
  EXPECT_NEAR(report.of_job->stages[0].forward, 0.025, kNear);
  EXPECT_NEAR(report.of_job->stages[1].backward, 0.375, kNear);
  EXPECT_NEAR(report.of_job->balance, 0.3 / 0.5, kNear);
  EXPECT_THAT(report.by_time->cuts, ElementsAre("dense4"));
  EXPECT_NEAR(report.by_time->balance, 1, kNear);
  EXPECT_GT(report.by_time->limit, report.of_job->limit);
  std::ostringstream text;
  PrintProfile(job, report, text);
  EXPECT_THAT(text.str(), HasSubstr("cuts: [\"dense4\"]"));
}

TEST(ProfileTest, ACutBeforeALayerWithoutWeightsLeavesItsTimeBehind) {
  const ResolvedJob job = Job(R"(group { pipeline_stages: 2 cuts: "tanh2" })");
  const ProfileReport report =
      MakeProfileReport(job, Times(job, {0.1, 0.2, 0.3, 0.4}));
  EXPECT_NEAR(report.of_job->stages[0].forward, 0.3 / 4, kNear);
  EXPECT_NEAR(report.of_job->stages[1].forward, 0.7 / 4, kNear);
}

TEST(ProfileTest, WhatItSaysOfVirtualTimeIsAJobs) {
  const ResolvedJob job = Job("group { pipeline_stages: 2 }");
  const ProfileReport report =
      MakeProfileReport(job, Times(job, {0.1, 0.1, 0.1, 0.3}));
  std::ostringstream text;
  PrintProfile(job, report, text);
  const std::string lines = text.str();
  const auto again = ParseJob(
      absl::StrCat("data { linear_regression { features: 8 } batch_size: 20 } "
                   "model { loss: MEAN_SQUARED_ERROR layer { dense { units: 8 "
                   "} } layer { dense { units: 8 } } layer { tanh {} } layer { "
                   "dense { units: 8 } } layer { dense { units: 1 } } } stop { "
                   "updates: 1 } ",
                   lines.substr(lines.find("\nworker {"))),
      "printed", {"worker.micro_batch=6"});
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->job.worker().group().cuts(0), "dense4");
  EXPECT_EQ(again->job.delays().compute().constant().ms(), 2400);
  EXPECT_EQ(again->job.delays().stage(1).backward(), 225);
  const auto json = ProfileToJson(job, report);
  EXPECT_EQ(json["by_time"]["cuts"][0], "dense4");
  EXPECT_EQ(json["parts"].size(), 4);
  EXPECT_EQ(json["of_job"]["stages"].size(), 2);
}

}  // namespace
}  // namespace sluice
