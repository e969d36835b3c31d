// Dense and conv2d of the CUDA device against the reference, and their bits.
#include <algorithm>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/cuda/cuda_testing.h"
#include "kernels/testing/op_runs.h"

namespace sluice::kernels {
namespace {

class CudaLinearTest : public CudaTest {
 protected:
  bool TooLargeFor(const LinearCase& c) const {
    return GetParam() != Where::kGpu && c.operations() > 4e6;
  }
};
SLUICE_CUDA_TEST_SUITE(CudaLinearTest);

// Runs both directions; every array begins `offset` floats after a multiple of
// 256 bytes. Outputs hold NaN before, which must not shine through.
void Execute(Device* device, LinearOp* op, const LinearCase& c, int64_t offset,
             LinearRun* run) {
  const Floats x(device, run->x, offset), w(device, run->w, offset),
      b(device, run->b, offset), dy(device, run->dy, offset);
  const auto y = Floats::Unwritten(device, c.samples * c.output_size(), offset);
  const auto dx = Floats::Unwritten(device, c.samples * c.input_size(), offset);
  const auto dw = Floats::Unwritten(device, c.weight_size(), offset);
  const auto db = Floats::Unwritten(device, c.bias_size(), offset);
  const bool bias = c.bias_size() > 0;
  const auto forward = op->Forward(c.samples, x.data(), w.data(),
                                   bias ? b.data() : nullptr, y.data());
  ASSERT_TRUE(forward.ok()) << forward;
  const auto backward =
      op->Backward(c.samples, x.data(), w.data(), dy.data(), dx.data(),
                   dw.data(), bias ? db.data() : nullptr);
  ASSERT_TRUE(backward.ok()) << backward;
  run->y = y.Read();
  run->dx = dx.Read();
  run->dw = dw.Read();
  run->db = db.Read();
}

TEST_P(CudaLinearTest, LinearOperationsAgreeWithTheReference) {
  for (const LinearCase& c : LinearCases()) {
    if (TooLargeFor(c)) continue;
    SCOPED_TRACE(c.name);
    LinearRun got = LinearArguments(c), want = got;
    LinearRun size = MagnitudesOf(got);
    auto op = Prepare(device_.get(), c);
    ASSERT_TRUE(op.ok()) << op.status();
    const auto plain = *Prepare(reference_.get(), c);
    Execute(device_.get(), op->get(), c, 0, &got);
    Execute(reference_.get(), plain.get(), c, 0, &want);
    Execute(reference_.get(), plain.get(), c, 0, &size);
    ExpectWithinRounding(c, got, want, size);
  }
}

TEST_P(CudaLinearTest, BitsDoNotDependOnAlignmentNorOnWhatRanBefore) {
  for (const LinearCase& c : LinearCases()) {
    if (TooLargeFor(c)) continue;
    SCOPED_TRACE(c.name);
    auto op = *Prepare(device_.get(), c);
    auto fresh = *Prepare(device_.get(), c);
    LinearRun first = LinearArguments(c);
    LinearRun moved = first, anew = first;
    Execute(device_.get(), op.get(), c, 0, &first);
    for (int64_t offset : {1, 6}) {
      Execute(device_.get(), op.get(), c, offset, &moved);
      ExpectSameBits(first, moved);
    }
    Execute(device_.get(), fresh.get(), c, 3, &anew);
    ExpectSameBits(first, anew);
  }
}

TEST_P(CudaLinearTest, AShortBatchGivesTheBitsOfAnOperationPreparedForIt) {
  for (const LinearCase& c : LinearCases()) {
    if (c.samples < 3 || TooLargeFor(c)) continue;
    SCOPED_TRACE(c.name);
    auto op = *Prepare(device_.get(), c);
    LinearCase shorter = c;
    shorter.samples = c.samples - 2;
    auto exact = *Prepare(device_.get(), shorter);
    LinearRun full = LinearArguments(c);
    LinearRun got = LinearArguments(shorter), want = got;
    Execute(device_.get(), op.get(), c, 0, &full);
    Execute(device_.get(), op.get(), shorter, 0, &got);
    Execute(device_.get(), exact.get(), shorter, 0, &want);
    ExpectSameBits(got, want);
    // More sizes than the operation keeps prepared at once.
    for (int64_t n = 1; n <= std::min<int64_t>(c.samples, 6); ++n) {
      LinearCase some = c;
      some.samples = n;
      LinearRun run = LinearArguments(some);
      Execute(device_.get(), op.get(), some, 0, &run);
    }
    LinearRun again = LinearArguments(c);
    Execute(device_.get(), op.get(), c, 0, &again);
    ExpectSameBits(full, again);
  }
}

TEST_P(CudaLinearTest, TheGradientAtTheInputMayBeLeftOut) {
  for (const LinearCase& c : LinearCases()) {
    if (TooLargeFor(c)) continue;
    SCOPED_TRACE(c.name);
    auto op = *Prepare(device_.get(), c);
    LinearRun run = LinearArguments(c);
    Execute(device_.get(), op.get(), c, 0, &run);
    const Floats x(device_.get(), run.x), w(device_.get(), run.w),
        dy(device_.get(), run.dy);
    const auto dw = Floats::Unwritten(device_.get(), c.weight_size());
    const auto db = Floats::Unwritten(device_.get(), c.bias_size());
    ASSERT_TRUE(op->Backward(c.samples, x.data(), w.data(), dy.data(), nullptr,
                             dw.data(), c.bias_size() > 0 ? db.data() : nullptr)
                    .ok());
    EXPECT_TRUE(SameBits(dw.Read(), run.dw));
    EXPECT_TRUE(SameBits(db.Read(), run.db));
  }
}

}  // namespace
}  // namespace sluice::kernels
