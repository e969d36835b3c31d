// Embedding, layer norm and attention of the CPU device against the reference,
// and their bits.
#include <cmath>
#include <limits>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/cpu/cpu_testing.h"
#include "kernels/reference/reference_device.h"
#include "kernels/testing/op_cases.h"
#include "kernels/testing/sequence_runs.h"

namespace sluice::kernels {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// Each runs both directions; outputs hold NaN before, which must not shine
// through.
void Execute(Device* device, const EmbeddingCase& c, EmbeddingRun* run) {
  auto op = device->Prepare(c.shape, c.samples + 1);
  ASSERT_TRUE(op.ok()) << op.status();
  run->y.assign(c.size(), kNan);
  run->dtoken.assign(c.shape.token_size(), kNan);
  run->dposition.assign(c.shape.position_size(), kNan);
  ASSERT_TRUE((*op)
                  ->Forward(c.samples, run->x.data(), run->token.data(),
                            run->position.data(), run->y.data())
                  .ok());
  ASSERT_TRUE((*op)
                  ->Backward(c.samples, run->x.data(), run->dy.data(), false,
                             run->dtoken.data(), run->dposition.data())
                  .ok());
  run->added = run->before;
  ASSERT_TRUE((*op)
                  ->Backward(c.samples, run->x.data(), run->dy.data(), true,
                             run->added.data(), run->dposition.data())
                  .ok());
}

void Execute(Device* device, const LayerNormCase& c, LayerNormRun* run) {
  auto op = device->Prepare(c.shape, c.samples + 1);
  ASSERT_TRUE(op.ok()) << op.status();
  run->y.assign(c.size(), kNan);
  run->dx.assign(c.size(), kNan);
  run->dgamma.assign(c.shape.features, kNan);
  run->dbeta.assign(c.shape.features, kNan);
  ASSERT_TRUE((*op)
                  ->Forward(c.samples, run->x.data(), run->gamma.data(),
                            run->beta.data(), run->y.data())
                  .ok());
  ASSERT_TRUE((*op)
                  ->Backward(c.samples, run->x.data(), run->gamma.data(),
                             run->dy.data(), run->dx.data(), run->dgamma.data(),
                             run->dbeta.data())
                  .ok());
}

void Execute(Device* device, const AttentionCase& c, AttentionRun* run) {
  auto op = device->Prepare(c.shape, c.samples + 1);
  ASSERT_TRUE(op.ok()) << op.status();
  run->y.assign(c.output_size(), kNan);
  run->dx.assign(c.input_size(), kNan);
  ASSERT_TRUE((*op)->Forward(c.samples, run->x.data(), run->y.data()).ok());
  ASSERT_TRUE((*op)
                  ->Backward(c.samples, run->x.data(), nullptr, run->dy.data(),
                             run->dx.data())
                  .ok());
}

TEST(SequenceOpsTest, EmbeddingAgreesWithTheReference) {
  const auto reference = MakeReferenceDevice();
  for (int threads : {1, 2}) {
    const auto cpu = Cpu(threads);
    for (const EmbeddingCase& c : EmbeddingCases()) {
      SCOPED_TRACE(c.name);
      EmbeddingRun got = EmbeddingArguments(c), want = got;
      Execute(cpu.get(), c, &got);
      Execute(reference.get(), c, &want);
      ExpectWithinRounding(c, got, want);
    }
  }
}

TEST(SequenceOpsTest, LayerNormAgreesWithTheReference) {
  const auto reference = MakeReferenceDevice();
  const auto cpu = Cpu();
  for (const LayerNormCase& c : LayerNormCases()) {
    SCOPED_TRACE(c.name);
    LayerNormRun got = LayerNormArguments(c), want = got;
    Execute(cpu.get(), c, &got);
    Execute(reference.get(), c, &want);
    // A sum in float has at most 64 terms, and 16 such are added in double.
    ExpectWithinRounding(c, 66 * kUnit, got, want);
  }
}

TEST(SequenceOpsTest, AttentionAgreesWithTheReference) {
  const auto reference = MakeReferenceDevice();
  for (int threads : {1, 2}) {
    const auto cpu = Cpu(threads);
    for (const AttentionCase& c : AttentionCases()) {
      SCOPED_TRACE(c.name);
      AttentionRun got = AttentionArguments(c), want = got;
      Execute(cpu.get(), c, &got);
      Execute(reference.get(), c, &want);
      ExpectWithinRounding(c, got, want);
    }
  }
}

TEST(SequenceOpsTest, BitsOfEmbeddingAndLayerNormDoNotDependOnThreads) {
  const auto one = Cpu(1), three = Cpu(3);
  for (const EmbeddingCase& c : EmbeddingCases()) {
    SCOPED_TRACE(c.name);
    EmbeddingRun want = EmbeddingArguments(c), got = want;
    one->EnterThread();
    Execute(one.get(), c, &want);
    three->EnterThread();
    Execute(three.get(), c, &got);
    ExpectSameBits(got, want);
  }
  for (const LayerNormCase& c : LayerNormCases()) {
    SCOPED_TRACE(c.name);
    LayerNormRun want = LayerNormArguments(c), got = want;
    one->EnterThread();
    Execute(one.get(), c, &want);
    three->EnterThread();
    Execute(three.get(), c, &got);
    ExpectSameBits(got, want);
  }
}

// `values` behind so many floats, which nobody looks at.
std::vector<float> Behind(int floats, const std::vector<float>& values) {
  std::vector<float> moved(floats, kNan);
  moved.insert(moved.end(), values.begin(), values.end());
  return moved;
}

TEST(SequenceOpsTest, BitsOfAttentionDoNotDependOnPlaceNorOnWhatRanBefore) {
  for (int threads : {1, 2}) {
    const auto cpu = Cpu(threads), other = Cpu(threads);
    for (const AttentionCase& c : AttentionCases()) {
      if (c.samples == 0) continue;
      SCOPED_TRACE(c.name);
      AttentionRun all = AttentionArguments(c), again = all;
      Execute(cpu.get(), c, &all);
      Execute(other.get(), c, &again);
      ExpectSameBits(all, again);
      // The last sample alone, from a place that is aligned as float only.
      const int64_t in = c.shape.input_size(), out = c.shape.output_size();
      const std::vector<float> x(all.x.end() - in, all.x.end());
      const std::vector<float> dy(all.dy.end() - out, all.dy.end());
      auto op = *cpu->Prepare(c.shape, 1);
      for (int offset : {1, 5}) {
        const auto at_x = Behind(offset, x), at_dy = Behind(offset, dy);
        std::vector<float> y(offset + out), dx(offset + in);
        ASSERT_TRUE(
            op->Forward(1, at_x.data() + offset, y.data() + offset).ok());
        ASSERT_TRUE(op->Backward(1, at_x.data() + offset, nullptr,
                                 at_dy.data() + offset, dx.data() + offset)
                        .ok());
        y.erase(y.begin(), y.begin() + offset);
        dx.erase(dx.begin(), dx.begin() + offset);
        EXPECT_TRUE(SameBits(y, {all.y.end() - out, all.y.end()}));
        EXPECT_TRUE(SameBits(dx, {all.dx.end() - in, all.dx.end()}));
      }
    }
  }
}

TEST(SequenceOpsTest, ALaterPlaceChangesNoBitOfAnEarlierOne) {
  const auto cpu = Cpu();
  for (const AttentionCase& c : AttentionCases()) {
    if (c.samples == 0 || c.benchmark) continue;
    SCOPED_TRACE(c.name);
    auto op = *cpu->Prepare(c.shape, c.samples);
    AttentionRun run = AttentionArguments(c);
    Execute(cpu.get(), c, &run);
    for (int64_t place : {c.shape.length / 2, c.shape.length - 1}) {
      std::vector<float> x = run.x, y(run.y.size());
      const int64_t row = 3 * c.shape.features(), out = c.shape.features();
      for (int64_t i = 0; i < row; ++i) x[place * row + i] += 100;
      ASSERT_TRUE(op->Forward(c.samples, x.data(), y.data()).ok());
      EXPECT_TRUE(SameBits({y.begin(), y.begin() + place * out},
                           {run.y.begin(), run.y.begin() + place * out}));
      EXPECT_FALSE(SameBits(y, run.y));
    }
  }
}

TEST(SequenceOpsTest, TheGradientAtALayerNormsInputMayBeLeftOut) {
  const auto cpu = Cpu();
  for (const LayerNormCase& c : {LayerNormCase{"", {3, 50, 1e-5}, 20},
                                 LayerNormCase{"", {1, 50, 1e-5, 5, 7}, 20}}) {
    LayerNormRun run = LayerNormArguments(c);
    Execute(cpu.get(), c, &run);
    LayerNormRun without = run;
    without.dgamma.assign(50, 0);
    ASSERT_TRUE((*cpu->Prepare(c.shape, 20))
                    ->Backward(20, run.x.data(), run.gamma.data(),
                               run.dy.data(), nullptr, without.dgamma.data(),
                               without.dbeta.data())
                    .ok());
    ExpectSameBits(without, run);
  }
}

TEST(SequenceOpsTest, ThreadsChangeNoBitOfALayerNorm) {
  for (const LayerNormCase& c : LayerNormCases()) {
    SCOPED_TRACE(c.name);
    LayerNormRun one = LayerNormArguments(c), two = one;
    Execute(Cpu(1).get(), c, &one);
    Execute(Cpu(2).get(), c, &two);
    ExpectSameBits(one, two);
  }
}

TEST(SequenceOpsTest, NanReachesTheOutputs) {
  const auto cpu = Cpu();
  std::vector<float> x(12, 1), y(12);
  const std::vector<float> gamma(4, 1), beta(4, 0);
  x[6] = kNan;
  ASSERT_TRUE((*cpu->Prepare(LayerNormShape{3, 4, 1e-5}, 1))
                  ->Forward(1, x.data(), gamma.data(), beta.data(), y.data())
                  .ok());
  EXPECT_FALSE(std::isnan(y[0]));
  EXPECT_TRUE(std::isnan(y[4]));
  // A dense layer before it makes all of a place's numbers NaN.
  std::fill(x.begin() + 3, x.begin() + 6, kNan);
  ASSERT_TRUE((*cpu->Prepare(AttentionShape{4, 1, 1}, 1))
                  ->Forward(1, x.data(), y.data())
                  .ok());
  for (int t = 1; t < 4; ++t) EXPECT_TRUE(std::isnan(y[t])) << t;
}

TEST(SequenceOpsTest, AnAttentionWhoseScoresDoNotFitInMemoryIsRefused) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "SKIPPED: the sanitizer ends a process that asks for so much";
#endif
  // More than an address space has.
  const auto op = Cpu()->Prepare(AttentionShape{1 << 23, 1, 1}, 1);
  EXPECT_EQ(op.status(),
            absl::ResourceExhaustedError("attention: no memory to work in"));
}

}  // namespace
}  // namespace sluice::kernels
