#include "cli/report/job/simulate_report.h"

#include <sstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/job/resolved_job.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace sluice {
namespace {

nlohmann::json Reported(const std::string& delays,
                        const std::string& sync = "policy: K_SYNC k: 2") {
  const auto job =
      ParseJob(absl::StrCat("cluster { workers: 4 } sync { ", sync,
                            " } data { linear_regression { features: 3 } } "
                            "model { layer { dense { units: 1 } } } "
                            "stop { updates: 1 } delays { ",
                            delays, " }"),
               "test", {});
  EXPECT_TRUE(job.ok()) << job.status();
  SimulationReport report;
  report.wall = absl::Seconds(2);
  Timing& timing = report.timing;
  timing.updates = 100;
  timing.mean_update_time = 0.25;
  timing.mean_staleness = 1.5;
  timing.wasted = 0.5;
  timing.scaling_efficiency = 0.75;
  timing.task = {.seconds = 8, .period = 8, .computing = {6, 4}};
  timing.events = 1000;
  std::ostringstream out;
  PrintSimulation(*job, report, /*json=*/true, out);
  return nlohmann::json::parse(out.str());
}

TEST(SimulateReportTest, NamesWhatOthersRead) {
  const auto json = Reported("compute { constant { ms: 50 } }");
  EXPECT_EQ(json["mean_update_time"], 0.25);
  EXPECT_EQ(json["updates_per_second"], 4);
  EXPECT_EQ(json["mean_staleness"], 1.5);
  EXPECT_EQ(json["wasted"], 0.5);
  EXPECT_EQ(json["scaling_efficiency"], 0.75);
  EXPECT_EQ(json["task_seconds"], 8);
  EXPECT_EQ(json["bubble"], 0.375);
  EXPECT_EQ(json["member_idle"], nlohmann::json({0.25, 0.5}));
  EXPECT_EQ(json["k"], 2);
  EXPECT_EQ(json["events_per_wall_second"], 500);
}

TEST(SimulateReportTest, GivesTheFormulaWhereThereIsOne) {
  EXPECT_EQ(Reported("compute { constant { ms: 50 } }")["formula"]["low"],
            0.05);
  const auto bounds =
      Reported("compute { shifted_exponential { shift_ms: 10 mean_ms: 40 } }",
               "policy: K_ASYNC k: 2")["formula"];
  EXPECT_LT(bounds["low"], bounds["high"]);
}

TEST(SimulateReportTest, GivesNoFormulaBeyondItsGround) {
  const std::string compute = "compute { constant { ms: 50 } } ";
  EXPECT_FALSE(Reported(compute + "worker_factor: 2").contains("formula"));
  EXPECT_FALSE(
      Reported(compute + "latency { constant { ms: 1 } }").contains("formula"));
  EXPECT_FALSE(Reported("compute { log_normal { median_ms: 1 sigma: 1 } }")
                   .contains("formula"));
  EXPECT_FALSE(
      Reported(compute, "policy: K_SYNC k_schedule { adaptive { max_k: 4 } }")
          .contains("formula"));
  EXPECT_FALSE(
      Reported(compute, "policy: ASYNC staleness { bound: 1 action: DROP }")
          .contains("formula"));
}

}  // namespace
}  // namespace sluice
