#include <google/protobuf/text_format.h>

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "common/job/resolved_job.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

// The violations that Validate finds in a job with these delays.
std::string Violations(const std::string& delays) {
  proto::Job job;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      delays, job.mutable_delays()))
      << delays;
  job.mutable_worker()->mutable_group()->set_pipeline_stages(
      job.delays().stage_size());
  std::vector<std::string> found;
  for (const std::string& violation : Validate(job)) {
    if (absl::StartsWith(violation, "delays")) found.push_back(violation);
  }
  return absl::StrJoin(found, "\n");
}

TEST(DelayValidationTest, EveryDistributionIsValidWithinItsBounds) {
  for (const char* delay :
       {"constant { ms: 0 }", "exponential { mean_ms: 50 }",
        "shifted_exponential { shift_ms: 1 mean_ms: 2 }",
        "pareto { minimum_ms: 1 shape: 1.5 }",
        "log_normal { median_ms: 3 sigma: 0 }",
        "two_speed { ms: 1 slow_share: 0.25 slow_factor: 4 }",
        "trace { path: \"times.txt\" }"}) {
    EXPECT_EQ(Violations(std::string("compute { ") + delay + " }"), "");
    EXPECT_EQ(Violations(std::string("latency { ") + delay + " }"), "");
  }
  EXPECT_EQ(Violations("worker_factor: 2 worker_bandwidth: 1e9"), "");
  EXPECT_EQ(Violations("stage { forward: 1e-9 backward: 2 }"), "");
}

struct Case {
  const char* delays;
  const char* expected;
};
class DelayViolationTest : public ::testing::TestWithParam<Case> {};

TEST_P(DelayViolationTest, IsNamedWithItsBoundAndItsValue) {
  EXPECT_EQ(Violations(GetParam().delays), GetParam().expected);
}

INSTANTIATE_TEST_SUITE_P(
    Each, DelayViolationTest,
    ::testing::Values(
        Case{"compute {}",
             "delays.compute: must set one of constant, exponential, "
             "shifted_exponential, pareto, log_normal, two_speed, trace"},
        Case{"compute { exponential {} }",
             "delays.compute.exponential.mean_ms: must be set"},
        Case{"compute { constant { ms: -1 } }",
             "delays.compute.constant.ms: must be 0 to 1e+09, is -1"},
        Case{"latency { constant { ms: nan } }",
             "delays.latency.constant.ms: must be 0 to 1e+09, is nan"},
        Case{"compute { pareto { minimum_ms: 0 shape: 1 } }",
             "delays.compute.pareto.minimum_ms: must be above 0 and at most "
             "1e+09, is 0\ndelays.compute.pareto.shape: must be above 1 and "
             "at most 1000, is 1"},
        Case{"compute { two_speed { ms: 1 slow_share: 2 slow_factor: 2 } }",
             "delays.compute.two_speed.slow_share: must be 0 to 1, is 2"},
        Case{"compute { trace {} }", "delays.compute.trace.path: must be set"},
        Case{"worker_factor: 1 worker_factor: 0",
             "delays.worker_factor[1]: must be above 0 and at most 1e+06, is "
             "0"},
        Case{"stage { forward: 0 }",
             "delays.stage[0].forward: must be above 0 and at most 1e+09, is "
             "0\ndelays.stage[0].backward: must be set"},
        Case{"shard_bandwidth: 0",
             "delays.shard_bandwidth: must be above 0 and at most 1e+15, is "
             "0"}));

}  // namespace
}  // namespace sluice
