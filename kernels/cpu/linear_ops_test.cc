// Dense and conv2d of the CPU device against the reference, and their bits.
#include <algorithm>
#include <limits>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/cpu/cpu_testing.h"
#include "kernels/reference/reference_device.h"
#include "kernels/testing/op_runs.h"

namespace sluice::kernels {
namespace {

// A copy of `values` that begins `offset` floats after a multiple of 64 bytes.
class Placed {
 public:
  Placed(const std::vector<float>& values, int offset)
      : memory_(values.size() + 32) {
    const auto address = reinterpret_cast<uintptr_t>(memory_.data());
    data_ = memory_.data() + (64 - address % 64) % 64 / 4 + offset;
    std::copy(values.begin(), values.end(), data_);
  }
  float* data() { return data_; }

 private:
  std::vector<float> memory_;
  float* data_;
};

// Runs both directions; every array begins `offset` floats after a multiple
// of 64 bytes. Outputs hold NaN before, which must not shine through.
void Execute(LinearOp* op, const LinearCase& c, int offset, LinearRun* run) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  run->y.assign(c.samples * c.output_size(), kNan);
  run->dx.assign(c.samples * c.input_size(), kNan);
  run->dw.assign(c.weight_size(), kNan);
  run->db.assign(c.bias_size(), kNan);
  Placed x(run->x, offset), w(run->w, offset), b(run->b, offset),
      dy(run->dy, offset), y(run->y, offset), dx(run->dx, offset),
      dw(run->dw, offset), db(run->db, offset);
  const bool bias = c.bias_size() > 0;
  const auto forward = op->Forward(c.samples, x.data(), w.data(),
                                   bias ? b.data() : nullptr, y.data());
  ASSERT_TRUE(forward.ok()) << forward;
  const auto backward =
      op->Backward(c.samples, x.data(), w.data(), dy.data(), dx.data(),
                   dw.data(), bias ? db.data() : nullptr);
  ASSERT_TRUE(backward.ok()) << backward;
  std::copy_n(y.data(), run->y.size(), run->y.begin());
  std::copy_n(dx.data(), run->dx.size(), run->dx.begin());
  std::copy_n(dw.data(), run->dw.size(), run->dw.begin());
  std::copy_n(db.data(), run->db.size(), run->db.begin());
}

TEST(LinearOpsTest, LinearOperationsAgreeWithTheReference) {
  const auto cpu = Cpu();
  const auto reference = MakeReferenceDevice();
  for (const LinearCase& c : LinearCases()) {
    SCOPED_TRACE(c.name);
    LinearRun got = LinearArguments(c), want = got;
    LinearRun size = MagnitudesOf(got);
    auto op = Prepare(cpu.get(), c);
    ASSERT_TRUE(op.ok()) << op.status();
    const auto plain = *Prepare(reference.get(), c);
    Execute(op->get(), c, 0, &got);
    Execute(plain.get(), c, 0, &want);
    Execute(plain.get(), c, 0, &size);
    ExpectWithinRounding(c, got, want, size);
  }
}

TEST(LinearOpsTest, LinearBitsDoNotDependOnAlignmentNorOnWhatRanBefore) {
  for (int threads : {1, 2}) {
    const auto cpu = Cpu(threads), other = Cpu(threads);
    for (const LinearCase& c : LinearCases()) {
      SCOPED_TRACE(c.name);
      auto op = *Prepare(cpu.get(), c);
      auto fresh = *Prepare(other.get(), c);
      LinearRun first = LinearArguments(c);
      LinearRun moved = first, anew = first;
      Execute(op.get(), c, 0, &first);
      for (int offset :
           threads == 1 ? std::vector<int>{1, 5, 14} : std::vector<int>{5}) {
        Execute(op.get(), c, offset, &moved);
        ExpectSameBits(first, moved);
      }
      Execute(fresh.get(), c, 3, &anew);
      ExpectSameBits(first, anew);
    }
  }
}

TEST(LinearOpsTest, WithReluTheBitsAreThoseOfReluBehindIt) {
  const auto cpu = Cpu(), reference = MakeReferenceDevice();
  for (Device* device : {cpu.get(), reference.get()}) {
    for (const LinearCase& c : LinearCases()) {
      SCOPED_TRACE(c.name);
      LinearRun without = LinearArguments(c);
      if (!without.x.empty()) {
        without.x[0] = std::numeric_limits<float>::quiet_NaN();
      }
      LinearRun with = without;
      const auto plain = *Prepare(device, c);
      const auto op = *Prepare(device, WithRelu(c));
      Execute(plain.get(), c, 1, &without);
      Execute(op.get(), c, 1, &with);
      ExpectReluOf(without, with);
    }
  }
}

// As in a worker, whose every life computes on a thread of its own.
TEST(LinearOpsTest, AnOperationRunsOnAnotherThreadThanTheOneThatPreparedIt) {
  const auto cpu = Cpu();
  for (const LinearCase& c : LinearCases()) {
    SCOPED_TRACE(c.name);
    auto op = *Prepare(cpu.get(), c);
    LinearRun elsewhere = LinearArguments(c), here = elsewhere;
    std::thread([&] {
      cpu->EnterThread();
      Execute(op.get(), c, 0, &elsewhere);
    }).join();
    Execute(op.get(), c, 0, &here);
    ExpectSameBits(here, elsewhere);
  }
}

TEST(LinearOpsTest, AShortBatchGivesTheBitsOfAnOperationPreparedForIt) {
  const auto cpu = Cpu();
  for (const LinearCase& c : LinearCases()) {
    if (c.samples < 3) continue;
    SCOPED_TRACE(c.name);
    auto op = *Prepare(cpu.get(), c);
    LinearCase shorter = c;
    shorter.samples = c.samples - 2;
    auto exact = *Prepare(cpu.get(), shorter);
    LinearRun full = LinearArguments(c);
    LinearRun got = LinearArguments(shorter), want = got;
    Execute(op.get(), c, 0, &full);
    Execute(op.get(), shorter, 0, &got);
    Execute(exact.get(), shorter, 0, &want);
    ExpectSameBits(got, want);
    // More sizes than the operation keeps prepared at once.
    for (int64_t n = 1; n <= std::min<int64_t>(c.samples, 6); ++n) {
      LinearCase some = c;
      some.samples = n;
      LinearRun run = LinearArguments(some);
      Execute(op.get(), some, 0, &run);
    }
    LinearRun again = LinearArguments(c);
    Execute(op.get(), c, 0, &again);
    ExpectSameBits(full, again);
  }
}

}  // namespace
}  // namespace sluice::kernels
