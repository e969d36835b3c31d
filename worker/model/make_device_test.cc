#include "worker/model/make_device.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cuda/cuda_device.h"

namespace sluice {
namespace {

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

TEST(MakeDeviceTest, TheJobChoosesTheDeviceAndItsThreads) {
  const auto cpu = MakeDevice(Worker(proto::CPU, 2));
  ASSERT_TRUE(cpu.ok()) << cpu.status();
  EXPECT_THAT((*cpu)->Description(), HasSubstr("2 threads"));
  const auto reference = MakeDevice(Worker(proto::REFERENCE, 1));
  ASSERT_TRUE(reference.ok()) << reference.status();
  EXPECT_THAT((*reference)->Description(), HasSubstr("reference"));
}

// Of a machine with a GPU or without.
bool HasGpu() { return kernels::MakeCudaDevice({}).ok(); }

TEST(MakeDeviceTest, AutoIsTheGpuWhereThereIsOneAndElseTheCpu) {
  const auto device = MakeDevice(Worker(proto::AUTO, 1));
  ASSERT_TRUE(device.ok()) << device.status();
  EXPECT_THAT((*device)->Description(), StartsWith(HasGpu() ? "cuda" : "cpu"));
}

TEST(MakeDeviceTest, AMissingGpuIsRefusedWithTheReasonAndWhatThereIs) {
  const auto device = MakeDevice(Worker(proto::CUDA, 1));
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
    EXPECT_THAT((*MakeDevice(worker))->Description(), EndsWith(end));
  }
}

TEST(MakeDeviceTest, AutoDoesNotTakeTheCpuForAPrecisionOfGpus) {
  if (HasGpu()) GTEST_SKIP() << "SKIPPED: there is a CUDA device";
  proto::Worker worker = Worker(proto::AUTO, 1);
  worker.set_precision(proto::Worker::BF16);
  const auto device = MakeDevice(worker);
  EXPECT_EQ(device.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(device.status().message()),
              StartsWith("worker.precision: BF16 needs a GPU; worker.device: "
                         "no CUDA device: this "));
}

}  // namespace
}  // namespace sluice
