// Operations of the CUDA device that are recorded and run again: on the
// machine's GPU where there is one, and emulated.
#include <memory>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/cuda/ops/library_op.h"
#include "kernels/cuda/testing/cuda_testing.h"

namespace sluice::kernels {
namespace {

class CudaRecordingTest : public CudaTest {
 protected:
  std::unique_ptr<Recording> Record(absl::FunctionRef<absl::Status()> calls) {
    auto recording = gpu().Record(calls);
    EXPECT_TRUE(recording.ok()) << recording.status();
    return recording.ok() ? *std::move(recording) : nullptr;
  }
};
SLUICE_CUDA_PRECISIONS_TEST_SUITE(CudaRecordingTest);

constexpr int64_t kSamples = 5, kInputs = 16, kOutputs = 24;

// A product, with arrays that must go through scratch memory, and what drops a
// part of it.
struct DenseAndDropout {
  DenseAndDropout(Device* device, Precision precision, int64_t samples)
      : samples(samples),
        dense(*device->Prepare(DenseShape{kInputs, kOutputs, true}, samples)),
        dropout(*device->Prepare(DropoutShape{kOutputs, 1, 0.5}, samples)),
        w(device, ToFloats(UniformValues(kInputs * kOutputs, 6)), 1),
        b(device, ToFloats(UniformValues(kOutputs, 7)), 1),
        x(Activations::Unwritten(device, precision, samples * kInputs, 1)),
        y(Activations::Unwritten(device, precision, samples * kOutputs, 1)) {}

  void SetInputs(uint64_t seed) {
    x.Write(ToFloats(UniformValues(samples * kInputs, seed)));
    ASSERT_TRUE(dropout->SetDraw(DropoutOp::Draw{seed, 2}).ok());
  }
  absl::Status Run() {
    const absl::Status status =
        dense->Forward(samples, x.data(), w.data(), b.data(), y.data());
    return status.ok() ? dropout->Run(samples, y.data(), y.data()) : status;
  }

  const int64_t samples;
  const std::unique_ptr<LinearOp> dense;
  const std::unique_ptr<DropoutOp> dropout;
  const Floats w, b;
  const Activations x, y;
};

TEST_P(CudaRecordingTest, ARecordingComputesWithWhatItsArraysHoldWhenItRuns) {
  DenseAndDropout work(device_.get(), precision(), kSamples);
  work.SetInputs(1);
  ASSERT_TRUE(work.Run().ok());
  const auto first = work.y.Read();
  const auto recording = Record([&] { return work.Run(); });
  ASSERT_NE(recording, nullptr);
  work.SetInputs(2);
  EXPECT_TRUE(SameBits(work.y.Read(), first));  // Nothing ran.
  ASSERT_TRUE(recording->Run().ok());
  const auto second = work.y.Read();
  EXPECT_FALSE(SameBits(second, first));
  ASSERT_TRUE(work.Run().ok());
  EXPECT_TRUE(SameBits(work.y.Read(), second));
  work.SetInputs(1);
  ASSERT_TRUE(recording->Run().ok());
  EXPECT_TRUE(SameBits(work.y.Read(), first));
}

TEST_P(CudaRecordingTest, ARecordingOutlivesTheScratchMemoryOfItsTime) {
  DenseAndDropout work(device_.get(), precision(), kSamples);
  DenseAndDropout larger(device_.get(), precision(), 1000);
  work.SetInputs(1);
  larger.SetInputs(1);
  ASSERT_TRUE(work.Run().ok());
  const auto want = work.y.Read();
  const auto recording = Record([&] { return work.Run(); });
  ASSERT_NE(recording, nullptr);
  // What needs more of it than there is cannot be recorded. (A GPU's library
  // may have taken enough at once.)
  EXPECT_TRUE(on_gpu() || !gpu().Record([&] { return larger.Run(); }).ok());
  ASSERT_TRUE(larger.Run().ok());
  ASSERT_TRUE(recording->Run().ok());
  EXPECT_TRUE(SameBits(work.y.Read(), want));
}

TEST_P(CudaRecordingTest, WhatWaitsOrAllocatesIsRefusedAndLeavesTheDeviceWell) {
  DenseAndDropout work(device_.get(), precision(), kSamples);
  work.SetInputs(1);
  ASSERT_TRUE(work.Run().ok());
  const auto want = work.y.Read();
  const auto refused = [&](absl::FunctionRef<absl::Status()> call) {
    return !gpu()
                .Record([&] {
                  const absl::Status status = work.Run();
                  return status.ok() ? call() : status;
                })
                .ok();
  };
  EXPECT_TRUE(refused([&] { return gpu().Synchronize(); }));
  EXPECT_TRUE(refused([&] { return device_->Allocate(4).status(); }));
  // Others, of which a GPU would be left with events that are no marks.
  if (!on_gpu()) {
    const auto download = *gpu().PrepareDownload(4);
    const auto upload = *gpu().PrepareUpload();
    float number = 0;
    EXPECT_TRUE(
        refused([&] { return gpu().CopyToHost(work.y.data(), &number, 4); }));
    EXPECT_TRUE(
        refused([&] { return gpu().CopyToDevice(&number, work.x.data(), 4); }));
    EXPECT_TRUE(refused([&] { return gpu().Pace(1); }));
    EXPECT_TRUE(refused([&] { return upload->Begin(); }));
    EXPECT_TRUE(
        refused([&] { return download->Begin(work.y.data(), &number, 4); }));
  }
  ASSERT_TRUE(work.Run().ok());
  EXPECT_TRUE(SameBits(work.y.Read(), want));
}

TEST_P(CudaRecordingTest, ARecordingOfFullMiniBatchesOutlivesManyOtherSizes) {
  DenseAndDropout work(device_.get(), precision(), 7);
  work.SetInputs(1);
  ASSERT_TRUE(work.Run().ok());
  const auto want = work.y.Read();
  const auto recording = Record([&] { return work.Run(); });
  ASSERT_NE(recording, nullptr);
  for (int64_t samples = 1; samples < 7; ++samples) {
    ASSERT_TRUE(work.dense
                    ->Forward(samples, work.x.data(), work.w.data(),
                              work.b.data(), work.y.data())
                    .ok());
  }
  ASSERT_TRUE(recording->Run().ok());
  EXPECT_TRUE(SameBits(work.y.Read(), want));
}

TEST(PerSamplesTest, WhatIsPreparedForTheMostSamplesIsMadeOnce) {
  cuda::PerSamples<int64_t> prepared;
  std::vector<int64_t> made;
  const auto make = [&](int64_t n) -> absl::StatusOr<std::unique_ptr<int64_t>> {
    made.push_back(n);
    return std::make_unique<int64_t>(n);
  };
  for (const int64_t samples : {9, 1, 2, 3, 4, 5, 6, 7, 9, 1}) {
    EXPECT_EQ(**prepared.For(samples, make), samples);
  }
  EXPECT_EQ(made, (std::vector<int64_t>{9, 1, 2, 3, 4, 5, 6, 7, 1}));
}

}  // namespace
}  // namespace sluice::kernels
