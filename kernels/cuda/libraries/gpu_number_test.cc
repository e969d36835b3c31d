#include "kernels/cuda/libraries/gpu_number.h"

#include "gtest/gtest.h"

namespace sluice::kernels::cuda {
namespace {

TEST(GpuNumberTest, AnyGpuThatIsThereIsTaken) {
  EXPECT_TRUE(CheckGpuNumber(0, {"A"}).ok());
  EXPECT_TRUE(CheckGpuNumber(1, {"A", "B"}).ok());
}

TEST(GpuNumberTest, AnotherIsRefusedWithThoseThatAreThere) {
  const absl::Status one = CheckGpuNumber(1, {"NVIDIA H200"});
  EXPECT_EQ(one.code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(one.message(),
            "no GPU 1 among those that this process sees: 0 (NVIDIA H200)");
  EXPECT_EQ(CheckGpuNumber(-1, {"A", "B"}).message(),
            "no GPU -1 among those that this process sees: 0 (A), 1 (B)");
}

TEST(GpuNumberTest, AMachineWithoutAGpuIsToldApart) {
  const absl::Status none = CheckGpuNumber(0, {});
  EXPECT_EQ(none.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(none.message(), "no CUDA device: this machine has no GPU");
}

}  // namespace
}  // namespace sluice::kernels::cuda
