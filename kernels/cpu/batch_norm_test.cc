// Batch normalisation of the CPU device against the reference, and what its
// bits may not depend on.
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/cpu/cpu_device.h"
#include "kernels/reference/reference_device.h"
#include "kernels/testing/comparison.h"
#include "kernels/testing/op_runs.h"

namespace sluice::kernels {
namespace {

std::unique_ptr<Device> Cpu(int threads = 1) {
  auto device = MakeCpuDevice({threads, {}});
  EXPECT_TRUE(device.ok()) << device.status();
  (*device)->EnterThread();
  return *std::move(device);
}

// Both directions, and Apply with the statistics, which gives the same; outputs
// hold NaN before, which must not shine through.
void Execute(BatchNormOp* op, const BatchNormCase& c, BatchNormRun* run) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  for (auto* v : {&run->mean, &run->variance, &run->dgamma, &run->dbeta}) {
    v->assign(c.shape.channels, kNan);
  }
  run->y.assign(c.size(), kNan);
  run->dx.assign(c.size(), kNan);
  ASSERT_TRUE(op->Normalize(c.samples, run->x.data(), run->gamma.data(),
                            run->beta.data(), run->mean.data(),
                            run->variance.data(), run->y.data())
                  .ok());
  std::vector<float> again(c.size(), kNan);
  ASSERT_TRUE(op->Apply(c.samples, run->x.data(), run->gamma.data(),
                        run->beta.data(), run->mean.data(),
                        run->variance.data(), again.data())
                  .ok());
  EXPECT_TRUE(SameBits(again, run->y));
  ASSERT_TRUE(op->Backward(c.samples, run->x.data(), run->gamma.data(),
                           run->mean.data(), run->variance.data(),
                           run->dy.data(), run->dx.data(), run->dgamma.data(),
                           run->dbeta.data())
                  .ok());
}

void ExpectNear(const std::vector<float>& got, const std::vector<float>& want,
                double tolerance, const char* what) {
  ASSERT_EQ(got.size(), want.size()) << what;
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_NEAR(got[i], want[i], tolerance) << what << "[" << i << "]";
  }
}

// A sum in float has at most 64 terms, and 16 such in double; |x| < 2, |dy|,
// |gamma| and |beta| are at most 1. `deviation` is the smallest of a channel.
TEST(BatchNormTest, AgreesWithTheReference) {
  const auto cpu = Cpu();
  const auto reference = MakeReferenceDevice();
  for (const BatchNormCase& c : BatchNormCases()) {
    SCOPED_TRACE(c.name);
    BatchNormRun got = BatchNormArguments(c), want = got;
    Execute((*cpu->Prepare(c.shape, 64)).get(), c, &got);
    Execute((*reference->Prepare(c.shape, 64)).get(), c, &want);
    double deviation = 2;
    for (float v : want.variance) {
      deviation = std::min(deviation, std::sqrt(v + c.shape.epsilon));
    }
    const double sum = 66 * kUnit;  // Relative, of a sum of magnitudes.
    const double count = static_cast<double>(c.samples * c.shape.pixels);
    ExpectNear(got.mean, want.mean, 2 * sum, "mean");
    // Of squares below 16, around a mean that is off by as much as above.
    ExpectNear(got.variance, want.variance, 16 * (sum + 3 * kUnit), "variance");
    // h = (x - mean) / deviation, |h| < 4 / deviation: the mean is off by
    // 2 sum, the variance by a share of 16 sum / deviation^2.
    const double h = 4 / deviation;
    const double h_error =
        h * (sum + 8 * sum / (deviation * deviation) + 4 * kUnit);
    ExpectNear(got.y, want.y, h_error + 2 * kUnit * (h + 1), "y");
    ExpectNear(got.dbeta, want.dbeta, (sum + kUnit) * count, "dbeta");
    ExpectNear(got.dgamma, want.dgamma, count * (h * sum + h_error), "dgamma");
    // gamma / deviation (dy - mean of dy - h times the mean of dy h)
    const double share = 8 * sum / (deviation * deviation);
    ExpectNear(got.dx, want.dx,
               (1 / deviation) *
                   ((2 + h * h) * (share + sum + 8 * kUnit) + 2 * h * h_error),
               "dx");
  }
}

TEST(BatchNormTest, WithReluTheBitsAreThoseOfReluBehindIt) {
  const auto cpu = Cpu(), reference = MakeReferenceDevice();
  for (Device* device : {cpu.get(), reference.get()}) {
    for (const BatchNormCase& c : BatchNormCases()) {
      SCOPED_TRACE(c.name);
      BatchNormRun without = BatchNormArguments(c);
      if (!without.x.empty()) {
        without.x[0] = std::numeric_limits<float>::quiet_NaN();
      }
      BatchNormRun with = without;
      const BatchNormCase relu = WithRelu(c);
      Execute((*device->Prepare(c.shape, 64)).get(), c, &without);
      Execute((*device->Prepare(relu.shape, 64)).get(), relu, &with);
      ExpectReluOf(without, with);
    }
  }
}

TEST(BatchNormTest, ANormalisedChannelHasTheMeanAndDeviationThatWereLearned) {
  const BatchNormCase c = {"", {3, 50, 1e-5}, 20};
  const auto cpu = Cpu();
  BatchNormRun run = BatchNormArguments(c);
  run.gamma = {2, -1, 0};
  run.beta = {0, 5, 7};
  Execute((*cpu->Prepare(c.shape, 20)).get(), c, &run);
  for (int64_t channel = 0; channel < 3; ++channel) {
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < 1000; ++i) {
      const double y = run.y[(i / 50 * 3 + channel) * 50 + i % 50];
      sum += y;
      squares += y * y;
    }
    const double mean = sum / 1000;
    // epsilon takes a share of 1e-5 / 2 / variance; rounding is far less.
    EXPECT_NEAR(mean, run.beta[channel], 1e-5);
    EXPECT_NEAR(std::sqrt(std::max(0.0, squares / 1000 - mean * mean)),
                std::abs(run.gamma[channel]), 1e-4);
  }
}

TEST(BatchNormTest, BitsDependNeitherOnThreadsNorOnWhatRanBefore) {
  const auto one = Cpu(1), two = Cpu(2), three = Cpu(3);
  for (const BatchNormCase& c : BatchNormCases()) {
    SCOPED_TRACE(c.name);
    BatchNormRun want = BatchNormArguments(c);
    one->EnterThread();
    auto op = *one->Prepare(c.shape, 64);
    Execute(op.get(), c, &want);
    BatchNormRun again = BatchNormArguments(c);
    Execute(op.get(), c, &again);
    ExpectSameBits(again, want);
    for (const auto* device : {&two, &three}) {
      BatchNormRun got = BatchNormArguments(c);
      (*device)->EnterThread();
      Execute((*(*device)->Prepare(c.shape, 64)).get(), c, &got);
      ExpectSameBits(got, want);
    }
  }
}

// Each channel alone gives the bits that it gives among the others, wherever
// among them it lies.
TEST(BatchNormTest, BitsOfAChannelDoNotDependOnItsPlace) {
  const auto cpu = Cpu();
  for (const BatchNormCase& c : BatchNormCases()) {
    if (c.shape.channels > 40) continue;
    SCOPED_TRACE(c.name);
    BatchNormRun all = BatchNormArguments(c);
    Execute((*cpu->Prepare(c.shape, 64)).get(), c, &all);
    BatchNormCase single = c;
    single.shape.channels = 1;
    auto op = *cpu->Prepare(single.shape, 64);
    for (int64_t channel = 0; channel < c.shape.channels; ++channel) {
      const auto part = [&](const std::vector<float>& v) {
        std::vector<float> of;
        for (int64_t i = 0; i < single.size(); ++i) {
          const int64_t n = i / c.shape.pixels, p = i % c.shape.pixels;
          of.push_back(
              v[(n * c.shape.channels + channel) * c.shape.pixels + p]);
        }
        return of;
      };
      BatchNormRun alone;
      alone.x = part(all.x);
      alone.dy = part(all.dy);
      alone.gamma = {all.gamma[channel]};
      alone.beta = {all.beta[channel]};
      Execute(op.get(), single, &alone);
      ASSERT_TRUE(SameBits(alone.y, part(all.y)));
      ASSERT_TRUE(SameBits(alone.dx, part(all.dx)));
      ASSERT_EQ(alone.mean[0], all.mean[channel]);
      ASSERT_EQ(alone.variance[0], all.variance[channel]);
      ASSERT_EQ(alone.dgamma[0], all.dgamma[channel]);
      ASSERT_EQ(alone.dbeta[0], all.dbeta[channel]);
    }
  }
}

TEST(BatchNormTest, AnElementsBitsDoNotDependOnItsPlaceInThePlane) {
  const auto cpu = Cpu();
  const float gamma = 0.7f, beta = 0.3f, mean = 0.1f, variance = 0.9f;
  for (int64_t pixels = 1; pixels < 100; ++pixels) {
    auto op = *cpu->Prepare(BatchNormShape{1, pixels, 1e-5}, 1);
    const std::vector<float> x(pixels, 0.37f);
    std::vector<float> y(pixels);
    ASSERT_TRUE(
        op->Apply(1, x.data(), &gamma, &beta, &mean, &variance, y.data()).ok());
    for (float v : y) ASSERT_EQ(v, y[0]) << pixels;
  }
}

TEST(BatchNormTest, ApplyTakesTheStatisticsItIsGiven) {
  const auto cpu = Cpu();
  auto op = *cpu->Prepare(BatchNormShape{2, 1, 3.0}, 4);
  const std::vector<float> x = {1, 10, 2, 20}, gamma = {2, 3}, beta = {1, -1};
  const std::vector<float> mean = {1, 10}, variance = {1, 97};
  std::vector<float> y(4);
  ASSERT_TRUE(op->Apply(2, x.data(), gamma.data(), beta.data(), mean.data(),
                        variance.data(), y.data())
                  .ok());
  EXPECT_EQ(y, (std::vector<float>{1, -1, 2, 3 * 1.0f - 1}));
}

TEST(BatchNormTest, TheGradientAtTheInputMayBeLeftOut) {
  const BatchNormCase c = {"", {3, 50, 1e-5}, 20};
  const auto cpu = Cpu();
  auto op = *cpu->Prepare(c.shape, 20);
  BatchNormRun run = BatchNormArguments(c);
  Execute(op.get(), c, &run);
  BatchNormRun without = run;
  without.dgamma.assign(3, 0);
  ASSERT_TRUE(op->Backward(20, run.x.data(), run.gamma.data(), run.mean.data(),
                           run.variance.data(), run.dy.data(), nullptr,
                           without.dgamma.data(), without.dbeta.data())
                  .ok());
  ExpectSameBits(without, run);
}

TEST(BatchNormTest, NanReachesTheStatistics) {
  const auto cpu = Cpu();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (int64_t pixels : {1, 40}) {
    auto op = *cpu->Prepare(BatchNormShape{1, pixels, 1e-5}, 2);
    std::vector<float> x(2 * pixels, 1), y(2 * pixels);
    x.back() = nan;
    const float gamma = 1, beta = 0;
    float mean = 0, variance = 0;
    ASSERT_TRUE(
        op->Normalize(2, x.data(), &gamma, &beta, &mean, &variance, y.data())
            .ok());
    EXPECT_TRUE(std::isnan(mean));
    EXPECT_TRUE(std::isnan(variance));
  }
}

}  // namespace
}  // namespace sluice::kernels
