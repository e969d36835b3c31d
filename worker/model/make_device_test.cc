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

}  // namespace
}  // namespace sluice
