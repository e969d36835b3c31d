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

TEST(GpuNumberTest, AnOldDriverIsNoMissingOne) {
  EXPECT_TRUE(CheckDriver(13000, 13000).ok());
  EXPECT_TRUE(CheckDriver(13000, 13020).ok());
  EXPECT_TRUE(CheckDriver(14010, 13000).ok());
  EXPECT_EQ(CheckDriver(0, 13000).code(), absl::StatusCode::kNotFound);
  const absl::Status old = CheckDriver(12080, 13000);
  EXPECT_EQ(old.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(old.message(),
            "the NVIDIA driver is for CUDA 12.8, expected one for CUDA 13.0 or "
            "later: this build is with CUDA 13.0");
}

}  // namespace
}  // namespace sluice::kernels::cuda
