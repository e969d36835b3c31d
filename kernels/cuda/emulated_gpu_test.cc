// The emulated GPU fails where a GPU would do something else now and then.

#include "kernels/cuda/testing/emulated_gpu.h"

#include <cmath>
#include <memory>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/testing/on_device.h"

namespace sluice::kernels {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class EmulatedGpuTest : public testing::Test {
 protected:
  // y = 2 x, of three floats.
  absl::Status Double(const float* x, float* y) {
    return op_->Scale({0, 3}, 2, x, y);
  }
  // What is in an array's memory, as nobody may look there.
  static std::vector<float> Peek(const OnDevice<float>& array) {
    return {array.data(), array.data() + 3};
  }

  const std::unique_ptr<Accelerator> gpu_ =
      cuda::MakeEmulatedGpu(/*libraries=*/true, Precision::kFp32);
  const std::unique_ptr<VectorOp> op_ = *gpu_->PrepareVector({{0, 3}});
};

TEST_F(EmulatedGpuTest, AnOperationIsDoneWhenSomebodyWaits) {
  const OnDevice<float> x(gpu_.get(), {1, 2, 3});
  const auto y = OnDevice<float>::Unwritten(gpu_.get(), 3);
  ASSERT_TRUE(gpu_->Synchronize().ok());
  ASSERT_TRUE(Double(x.data(), y.data()).ok());
  EXPECT_TRUE(std::isnan(Peek(y)[0]));
  ASSERT_TRUE(gpu_->Synchronize().ok());
  EXPECT_THAT(Peek(y), ElementsAre(2, 4, 6));
}

TEST_F(EmulatedGpuTest, BetweenLayersAllButTheLastStretchesAreWaitedFor) {
  const OnDevice<float> x(gpu_.get(), {1, 2, 3});
  const auto y = OnDevice<float>::Unwritten(gpu_.get(), 3);
  ASSERT_TRUE(gpu_->Synchronize().ok());
  ASSERT_TRUE(Double(x.data(), x.data()).ok());
  ASSERT_TRUE(gpu_->Pace(1).ok());
  EXPECT_THAT(Peek(x), ElementsAre(1, 2, 3));
  ASSERT_TRUE(Double(x.data(), y.data()).ok());
  ASSERT_TRUE(gpu_->Pace(1).ok());
  EXPECT_THAT(Peek(x), ElementsAre(2, 4, 6));
  EXPECT_TRUE(std::isnan(Peek(y)[0]));
}

TEST_F(EmulatedGpuTest, AnUploadComesBeforeOperationsThatShouldNotUseIt) {
  const OnDevice<float> x(gpu_.get(), {1, 2, 3});
  const auto y = OnDevice<float>::Unwritten(gpu_.get(), 3);
  const auto before = OnDevice<float>::Unwritten(gpu_.get(), 3);
  const auto upload = *gpu_->PrepareUpload();
  ASSERT_TRUE(Double(x.data(), before.data()).ok());
  ASSERT_TRUE(upload->Begin().ok());
  ASSERT_TRUE(Double(x.data(), y.data()).ok());  // Before it was sent.
  const std::vector<float> sent = {10, 20, 30};
  ASSERT_TRUE(upload->Send(sent.data(), x.data(), 3 * sizeof(float)).ok());
  EXPECT_THAT(before.Read(), ElementsAre(2, 4, 6));
  EXPECT_THAT(y.Read(), ElementsAre(20, 40, 60));
}

TEST_F(EmulatedGpuTest, RegisteredMemoryIsReadWhenOperationsNeedIt) {
  const auto x = OnDevice<float>::Unwritten(gpu_.get(), 3);
  const auto y = OnDevice<float>::Unwritten(gpu_.get(), 3);
  std::vector<float> sent = {1, 2, 3};
  const auto registered = gpu_->Register(sent.data(), 3 * sizeof(float));
  const auto upload = *gpu_->PrepareUpload();
  ASSERT_TRUE(upload->Begin().ok());
  ASSERT_TRUE(upload->Send(sent.data(), x.data(), 3 * sizeof(float)).ok());
  ASSERT_TRUE(Double(x.data(), y.data()).ok());
  sent = {10, 20, 30};  // Too early.
  EXPECT_THAT(y.Read(), ElementsAre(20, 40, 60));
}

TEST_F(EmulatedGpuTest, RegisteredMemoryHoldsAnythingUntilItsPartIsTaken) {
  const OnDevice<float> x(gpu_.get(), {1, 2, 3});
  std::vector<float> brought = {7, 7, 7, 7};
  const auto registered = gpu_->Register(brought.data(), 4 * sizeof(float));
  const auto download = *gpu_->PrepareDownload(3 * sizeof(float));
  ASSERT_TRUE(
      download->Begin(x.data(), brought.data(), 3 * sizeof(float)).ok());
  EXPECT_TRUE(std::isnan(brought[0]));
  EXPECT_TRUE(*download->Take(/*wait=*/true));
  EXPECT_THAT(brought, ElementsAre(1, 2, 3, 7));
}

TEST_F(EmulatedGpuTest, ThePointerOfAHostsArrayIsRefused) {
  const OnDevice<float> x(gpu_.get(), {1, 2, 3});
  std::vector<float> host(64);
  const auto refused = [](const absl::Status& status) {
    EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("an array not in the device's memory"));
  };
  refused(gpu_->CopyToHost(host.data(), host.data() + 8, 4));
  refused(gpu_->CopyToDevice(host.data(), host.data() + 8, 4));
  const auto upload = *gpu_->PrepareUpload();
  refused(upload->Send(host.data(), host.data() + 8, 4));
  const auto download = *gpu_->PrepareDownload(16);
  refused(download->Begin(host.data(), host.data() + 8, 4));
  // A library and a kernel.
  const auto dense = *gpu_->Prepare(DenseShape{3, 1, true}, 1);
  refused(dense->Forward(1, x.data(), host.data(), x.data(), x.data()));
  const auto relu =
      *gpu_->Prepare(ActivationShape{ActivationKind::kRelu, 3}, 1);
  refused(relu->Forward(1, x.data(), host.data()));
}

TEST(FallbackTest, WhatALibraryCannotDoIsSaidOnceWithWhatIsDoneInstead) {
  std::vector<std::string> told;
  const auto run = [&](Precision precision) {
    told.clear();
    const auto gpu = cuda::MakeEmulatedGpu(
        /*libraries=*/false, precision,
        [&](const std::string& what) { told.push_back(what); });
    const auto dense = *gpu->Prepare(DenseShape{3, 1, true}, 2);
    const OnDevice<float> w(gpu.get(), {1, 2, 3, 4}),
        x(gpu.get(), std::vector<float>(8));
    for (const int64_t samples : {2, 2}) {
      const auto y = OnDevice<float>::Unwritten(gpu.get(), 2);
      EXPECT_TRUE(
          dense->Forward(samples, x.data(), w.data(), w.data() + 3, y.data())
              .ok());
    }
  };
  run(Precision::kFp32);
  EXPECT_THAT(
      told,
      ElementsAre(HasSubstr("its bias added by a kernel of its own: a bias")));
  run(Precision::kBf16);
  EXPECT_THAT(told,
              testing::Contains(HasSubstr(
                  "with 2 samples in FP32: columns not aligned to 16 bytes")));
}

}  // namespace
}  // namespace sluice::kernels
