#include "worker/model/make_device.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;

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

TEST(MakeDeviceTest, AutoIsTheCpuInABuildWithoutCuda) {
  const auto device = MakeDevice(Worker(proto::AUTO, 1));
  ASSERT_TRUE(device.ok()) << device.status();
  EXPECT_THAT((*device)->Description(), HasSubstr("cpu"));
}

TEST(MakeDeviceTest, AMissingDeviceIsRefusedWithWhatThereIs) {
  const auto device = MakeDevice(Worker(proto::CUDA, 1));
  EXPECT_EQ(device.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(device.status().message(),
            "worker.device: this build has no CUDA device; there are CPU and "
            "REFERENCE");
}

}  // namespace
}  // namespace sluice
