#include "worker/external/external_measure.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/job/resolved_job.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using testing::AllOf;
using testing::Gt;
using testing::HasSubstr;
using testing::Lt;

constexpr char kJob[] = R"(
data { external { train_samples: 10 test_samples: 5 } batch_size: 4 }
model {
  external {
    tensor { name: "w" shape: 3 kind: WEIGHT }
    tensor { name: "b" shape: 1 kind: BIAS }
  }
  init_from: "unread"
}
limits { task_deadline_s: 30 }
stop { updates: 5 }
)";
const char* const kPrograms = "worker/external/testing/";

class ExternalMeasureTest : public testing::Test {
 protected:
  // REQUIRES: it becomes ready.
  void Start(const std::string& program, const std::string& what = "",
             const std::string& set = "limits.task_deadline_s=30") {
    const auto job = ParseJob(kJob, "job", {set});
    ASSERT_TRUE(job.ok()) << job.status().message().data();
    std::vector<std::string> command = {kPrograms + program};
    if (!what.empty()) command.push_back(what);
    auto started = ExternalMeasure::Start(*job, std::move(command));
    ASSERT_TRUE(started.ok()) << started.status().message().data();
    measure_ = *std::move(started);
  }
  absl::StatusOr<Measurement> Measure() {
    return measure_->Measure(Version(70), {}, cancel_);
  }
  std::string Said() { return std::string(Measure().status().message()); }

  std::unique_ptr<ExternalMeasure> measure_;
  CancelToken cancel_;
};

// Both programs measure the same.
class LinearMeasureTest : public ExternalMeasureTest,
                          public testing::WithParamInterface<const char*> {};

INSTANTIATE_TEST_SUITE_P(Languages, LinearMeasureTest,
                         testing::Values("linear_model", "linear_model_py"));

// How far a model with these weights is off at sample i, whose inputs are
// ((7 i + 3 j) mod 11 - 5) / 8.
double Error(int64_t i, const std::vector<double>& weights) {
  double error = weights[3] - 0.25;
  for (int64_t j = 0; j < 3; ++j) {
    error += (weights[j] - static_cast<double>(j + 1) / 2) *
             static_cast<double>((7 * i + 3 * j) % 11 - 5) / 8;
  }
  return error;
}

TEST_P(LinearMeasureTest, TheTestSamplesAreMeasuredAtTheWeights) {
  Start(GetParam());
  for (const std::vector<double>& weights :
       {std::vector<double>{0.5, -1, 2, 0.125}, {0, 0, 0, 0}}) {
    std::copy(weights.begin(), weights.end(), measure_->Weights(0).begin());
    const auto measured = Measure();
    ASSERT_TRUE(measured.ok()) << measured.status().message().data();
    double loss = 0, near = 0;
    for (int64_t i = 1000000; i < 1000005; ++i) {
      const double error = Error(i, weights);
      loss += error * error / 2 / 5;
      near += std::abs(error) < 1 ? 1 : 0;
    }
    EXPECT_NEAR(measured->loss, loss, 1e-12);
    EXPECT_THAT(near, AllOf(Gt(0), Lt(5)));  // Else it shows nothing.
    EXPECT_EQ(measured->accuracy, near / 5);
    EXPECT_EQ(measured->samples, 5);
  }
}

TEST_F(ExternalMeasureTest, AMeasurementWithoutAccuracyHasNone) {
  Start("faulty_model", "no-accuracy");
  const auto measured = Measure();
  ASSERT_TRUE(measured.ok()) << measured.status().message().data();
  EXPECT_EQ(measured->loss, 0.5);
  EXPECT_FALSE(measured->accuracy.has_value());
}

TEST_F(ExternalMeasureTest, WhatIsLoggedComesWithTheMeasurement) {
  Start("faulty_model", "log-in-evaluation");
  const auto measured = Measure();
  ASSERT_TRUE(measured.ok()) << measured.status().message().data();
  EXPECT_EQ(measured->logged, (LoggedValues{{"f1", 7}}));
}

TEST_F(ExternalMeasureTest, ACancelReachesAProcessThatMeasures) {
  for (const char* what : {"wait-in-evaluation", "evaluated-after-cancel"}) {
    cancel_.Reset();
    Start("faulty_model", what);
    std::thread canceller([&] {
      cancel_.Cancel();
      measure_->Wake();
    });
    EXPECT_EQ(Measure().status().code(), absl::StatusCode::kAborted) << what;
    canceller.join();
    EXPECT_FALSE(measure_->broken());
  }
}

TEST_F(ExternalMeasureTest, OneThatIsAbandonedEndsWhatItDoes) {
  Start("faulty_model", "wait-in-evaluation");
  std::thread leaver([&] { measure_->Abandon(); });
  EXPECT_EQ(Measure().status().code(), absl::StatusCode::kAborted);
  leaver.join();
}

TEST_F(ExternalMeasureTest, AProcessThatEndsBreaksItAndTheVersionIsNamed) {
  Start("faulty_model", "exit-in-evaluation");
  EXPECT_FALSE(measure_->broken());
  const absl::Status status = Measure().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("faulty_model exit-in-evaluation) ended with exit "
                        "status 4 in the evaluation of version 70"));
  EXPECT_TRUE(measure_->broken());
  EXPECT_EQ(Measure().status(), status);
}

TEST_F(ExternalMeasureTest, AnEvaluationHasTheTimeOfATask) {
  Start("faulty_model", "wait-in-evaluation", "limits.task_deadline_s=0.2");
  EXPECT_THAT(Said(), HasSubstr("has said nothing for 200ms in the evaluation "
                                "of version 70 and was killed"));
}

TEST_F(ExternalMeasureTest, WhatAProcessMustNotSayBreaksIt) {
  for (const auto& [what, said] :
       {std::pair{"result-in-evaluation",
                  "sent RESULT, expected LOG, EVALUATED, CANCELLED or FAILED"},
        {"evaluated-fewer", "sent EVALUATED of 4 samples, expected 5"},
        {"accuracy-above-1",
         "sent EVALUATED with accuracy 1.5, expected 0 to 1, or NaN for none"},
        {"evaluated-another", "sent EVALUATED of task 2, expected 1"}}) {
    Start("faulty_model", what);
    EXPECT_THAT(Said(),
                AllOf(HasSubstr(said), HasSubstr("in the evaluation of version "
                                                 "70, and was killed")));
    EXPECT_TRUE(measure_->broken());
  }
}

TEST_F(ExternalMeasureTest, AnExceptionIsToldInItsOwnWords) {
  Start("faulty_model_py", "compute");
  EXPECT_THAT(Said(), HasSubstr("failed in the evaluation of version 70: "
                                "ZeroDivisionError: division by zero"));
}

}  // namespace
}  // namespace sluice
