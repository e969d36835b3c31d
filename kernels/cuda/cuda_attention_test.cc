// Attention of the CUDA device against the reference, and its bits.
#include <cmath>
#include <limits>

#include "gtest/gtest.h"
#include "kernels/cuda/testing/cuda_testing.h"
#include "kernels/testing/sequence_runs.h"

namespace sluice::kernels {
namespace {

class CudaAttentionTest : public CudaTest {
 protected:
  bool TooLargeFor(const AttentionCase& c) const {
    const bool casts = Is16Bit(precision());  // They cost most.
    return TooLarge(c.operations() / (casts ? 2 : 10));
  }

  AttentionRun Arguments(const AttentionCase& c) const {
    AttentionRun run = AttentionArguments(c);
    run.x = Rounded(run.x);
    run.dy = Rounded(run.dy);
    return run;
  }
};
SLUICE_CUDA_PRECISIONS_TEST_SUITE(CudaAttentionTest);

// Runs both directions on a device that has activations in `precision`; every
// array begins `offset` numbers after a multiple of 256 bytes. Outputs hold NaN
// before, which must not shine through.
void Execute(Device* device, Precision precision, const AttentionCase& c,
             int64_t offset, AttentionRun* run) {
  auto op = device->Prepare(c.shape, c.samples + 1);
  ASSERT_TRUE(op.ok()) << op.status();
  const Activations x(device, precision, run->x, offset),
      dy(device, precision, run->dy, offset);
  const auto y =
      Activations::Unwritten(device, precision, c.output_size(), offset);
  const auto dx =
      Activations::Unwritten(device, precision, c.input_size(), offset);
  const auto forward = (*op)->Forward(c.samples, x.data(), y.data());
  ASSERT_TRUE(forward.ok()) << forward;
  const auto backward =
      (*op)->Backward(c.samples, x.data(), nullptr, dy.data(), dx.data());
  ASSERT_TRUE(backward.ok()) << backward;
  run->y = y.Read();
  run->dx = dx.Read();
}

TEST_P(CudaAttentionTest, AttentionAgreesWithTheReference) {
  for (const AttentionCase& c : AttentionCases()) {
    if (TooLargeFor(c)) continue;
    SCOPED_TRACE(c.name);
    AttentionRun got = Arguments(c), want = got, moved = got;
    Execute(device_.get(), precision(), c, 0, &got);
    Execute(reference_.get(), Precision::kFp32, c, 0, &want);
    ExpectWithinRounding(c, got, want, rounding(), stored());
    Execute(device_.get(), precision(), c, 1, &moved);
    ExpectSameBits(got, moved);
  }
}

TEST_P(CudaAttentionTest, ALaterPlaceChangesNoBitOfAnEarlierOne) {
  const AttentionCase c = {"", {33, 2, 4}, 2};
  AttentionRun first = Arguments(c), second = first;
  Execute(device_.get(), precision(), c, 0, &first);
  const int64_t row = 3 * 8, place = 17;
  for (int64_t i = 0; i < row; ++i) second.x[place * row + i] += 100;
  Execute(device_.get(), precision(), c, 0, &second);
  EXPECT_TRUE(SameBits({first.y.begin(), first.y.begin() + place * 8},
                       {second.y.begin(), second.y.begin() + place * 8}));
  EXPECT_FALSE(SameBits(first.y, second.y));
}

TEST_P(CudaAttentionTest, AShortBatchGivesTheBitsOfAnOperationPreparedForIt) {
  const AttentionCase c = {"", {9, 2, 3}, 4};
  AttentionRun all = Arguments(c);
  auto op = *device_->Prepare(c.shape, 4);
  const Activations x(device_.get(), precision(), all.x);
  const auto y =
      Activations::Unwritten(device_.get(), precision(), c.output_size());
  ASSERT_TRUE(op->Forward(4, x.data(), y.data()).ok());
  const std::vector<float> of_all = y.Read();
  ASSERT_TRUE(op->Forward(2, x.data(), y.data()).ok());
  EXPECT_TRUE(SameBits(y.Read(), of_all));
}

TEST_P(CudaAttentionTest, NanReachesTheOutput) {
  std::vector<float> values(12, 1);
  values[6] = std::numeric_limits<float>::quiet_NaN();
  const Activations x(device_.get(), precision(), values);
  const auto attended = Activations::Unwritten(device_.get(), precision(), 4);
  ASSERT_TRUE((*device_->Prepare(AttentionShape{4, 1, 1}, 1))
                  ->Forward(1, x.data(), attended.data())
                  .ok());
  // It is the third place's query, which no other looks at.
  EXPECT_FALSE(std::isnan(attended.Read()[1]));
  EXPECT_TRUE(std::isnan(attended.Read()[2]));
}

TEST_P(CudaAttentionTest, ScoresThatAreTooManyAreRefused) {
  const auto refused = device_->Prepare(AttentionShape{4096, 16, 64}, 8);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(refused.status().message(),
            "attention 16x64, length 4096: 8 samples of 268435456 floats are "
            "more than the CUDA device's 2147483647 of an array; take a "
            "smaller micro-batch");
}

}  // namespace
}  // namespace sluice::kernels
