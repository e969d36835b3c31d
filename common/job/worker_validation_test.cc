// The fields of a job that describe its workers.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/job/resolved_job.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<std::string> Violations(proto::Device device,
                                    proto::Worker::Precision precision) {
  proto::Job job;
  job.mutable_worker()->set_device(device);
  job.mutable_worker()->set_precision(precision);
  job.mutable_data()->mutable_linear_regression()->set_features(20);
  job.mutable_model()->add_layer()->mutable_dense()->set_units(1);
  job.mutable_stop()->set_epochs(1);
  ResolveDefaults(&job);
  return Validate(job);
}

TEST(WorkerValidationTest, OnlyGpusHaveAnotherPrecisionThanFp32) {
  using Worker = proto::Worker;
  for (const auto device : {proto::CPU, proto::REFERENCE}) {
    EXPECT_THAT(Violations(device, Worker::FP32), IsEmpty());
    for (const auto other : {Worker::TF32, Worker::BF16, Worker::FP16}) {
      EXPECT_THAT(
          Violations(device, other),
          ElementsAre(absl::StrCat(
              "worker.precision: must be FP32 with worker.device ",
              proto::Device_Name(device), ", is ",
              Worker::Precision_Name(other), ": only GPUs have others")));
    }
  }
  for (const auto device : {proto::CUDA, proto::AUTO}) {
    for (const auto any :
         {Worker::FP32, Worker::TF32, Worker::BF16, Worker::FP16}) {
      EXPECT_THAT(Violations(device, any), IsEmpty());
    }
  }
}

TEST(WorkerValidationTest, EachStageHasItsTimesOrNone) {
  proto::Job job;
  job.mutable_worker()->mutable_group()->set_pipeline_stages(2);
  job.mutable_data()->mutable_linear_regression()->set_features(20);
  job.mutable_model()->add_layer()->mutable_dense()->set_units(1);
  job.mutable_stop()->set_epochs(1);
  ResolveDefaults(&job);
  EXPECT_THAT(Validate(job), IsEmpty());
  const auto add = [&job] {
    proto::StageTime* stage = job.mutable_delays()->add_stage();
    stage->set_forward(1);
    stage->set_backward(2);
  };
  add();
  EXPECT_THAT(Validate(job),
              ElementsAre("delays.stage: must be 2 "
                          "(worker.group.pipeline_stages), are 1"));
  add();
  EXPECT_THAT(Validate(job), IsEmpty());
}

}  // namespace
}  // namespace sluice
