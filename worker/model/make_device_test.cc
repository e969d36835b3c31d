#include "worker/model/make_device.h"

#include <vector>

#include "common/ids.h"
#include "common/job/group.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cuda/cuda_device.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

proto::Worker Worker(proto::Device device, int threads) {
  proto::Worker worker;
  worker.set_device(device);
  worker.set_threads(threads);
  worker.set_instruction_set(proto::AVX2);
  return worker;
}

auto Make(const proto::Worker& worker) { return MakeDevice(worker, 0); }

TEST(MakeDeviceTest, TheJobChoosesTheDeviceAndItsThreads) {
  const auto cpu = Make(Worker(proto::CPU, 2));
  ASSERT_TRUE(cpu.ok()) << cpu.status();
  EXPECT_THAT((*cpu)->Description(), HasSubstr("2 threads"));
  const auto reference = Make(Worker(proto::REFERENCE, 1));
  ASSERT_TRUE(reference.ok()) << reference.status();
  EXPECT_THAT((*reference)->Description(), HasSubstr("reference"));
}

// Of a machine with a GPU or without.
bool HasGpu() { return kernels::MakeCudaDevice({}).ok(); }

TEST(MakeDeviceTest, AutoIsTheGpuWhereThereIsOneAndElseTheCpu) {
  const auto device = Make(Worker(proto::AUTO, 1));
  ASSERT_TRUE(device.ok()) << device.status();
  EXPECT_THAT((*device)->Description(), StartsWith(HasGpu() ? "cuda" : "cpu"));
}

TEST(MakeDeviceTest, AMissingGpuIsRefusedWithTheReasonAndWhatThereIs) {
  const auto device = Make(Worker(proto::CUDA, 1));
  if (HasGpu()) {
    ASSERT_TRUE(device.ok()) << device.status();
    EXPECT_THAT((*device)->Description(), StartsWith("cuda"));
    return;
  }
  EXPECT_EQ(device.status().code(), absl::StatusCode::kFailedPrecondition);
  const std::string message(device.status().message());
  EXPECT_THAT(message, StartsWith("worker.device: no CUDA device: this "));
  EXPECT_THAT(message, EndsWith("; there are CPU and REFERENCE"));
}

TEST(MakeDeviceTest, TheGpuComputesInTheJobsPrecision) {
  if (!HasGpu()) GTEST_SKIP() << "SKIPPED: no CUDA device";
  proto::Worker worker = Worker(proto::CUDA, 1);
  for (const auto& [precision, end] :
       {std::pair{proto::Worker::FP32, ", FP32)"},
        {proto::Worker::TF32, ", TF32)"},
        {proto::Worker::BF16, ", BF16)"},
        {proto::Worker::FP16, ", FP16)"}}) {
    worker.set_precision(precision);
    EXPECT_THAT((*Make(worker))->Description(), EndsWith(end));
  }
}

TEST(MakeDeviceTest, AutoDoesNotTakeTheCpuForAPrecisionOfGpus) {
  if (HasGpu()) GTEST_SKIP() << "SKIPPED: there is a CUDA device";
  proto::Worker worker = Worker(proto::AUTO, 1);
  worker.set_precision(proto::Worker::BF16);
  const auto device = Make(worker);
  EXPECT_EQ(device.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(device.status().message()),
              StartsWith("worker.precision: BF16 needs a GPU; worker.device: "
                         "no CUDA device: this "));
}

// Not even with AUTO another is taken in its place, or the CPU.
TEST(MakeDeviceTest, ANumberThatNoGpuHasIsRefusedWithThoseThatAreThere) {
  if (!HasGpu()) GTEST_SKIP() << "SKIPPED: no CUDA device";
  for (const proto::Device device : {proto::CUDA, proto::AUTO}) {
    proto::Worker worker = Worker(device, 1);
    worker.add_gpus(0);
    worker.add_gpus(1023);
    EXPECT_TRUE(Make(worker).ok());
    const auto refused = MakeDevice(worker, 1);
    EXPECT_EQ(refused.status().code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(refused.status().message()),
                StartsWith("worker.gpus: no GPU 1023 among "));
  }
}

TEST(MakeDeviceTest, WorkersTakeTheJobsGpusInTurn) {
  proto::Worker worker;
  EXPECT_EQ(GpuOf(worker, 0), 0);
  EXPECT_EQ(GpuOf(worker, 7), 0);
  for (const int gpu : {4, 6, 5}) worker.add_gpus(gpu);
  std::vector<int> taken;
  for (int id = 0; id < 5; ++id) taken.push_back(GpuOf(worker, id));
  EXPECT_THAT(taken, ElementsAre(4, 6, 5, 4, 6));
  EXPECT_EQ(GpuOf(worker, (int64_t{3} << 40) + 1), 6);
}

TEST(MakeDeviceTest, TheStagesOfAWorkerTakeTheJobsGpusInTurn) {
  proto::Job job;
  job.mutable_worker()->mutable_group()->set_pipeline_stages(2);
  for (const int gpu : {4, 6, 5, 7}) job.mutable_worker()->add_gpus(gpu);
  std::vector<int> taken;
  for (int worker = 0; worker < 3; ++worker) {
    for (int member = 0; member < 2; ++member) {
      taken.push_back(
          GpuOf(job.worker(), ProcessOf(job, WorkerId(worker), member)));
    }
  }
  EXPECT_THAT(taken, ElementsAre(4, 6, 5, 7, 4, 6));
}

}  // namespace
}  // namespace sluice
