// Batch normalisation of the CUDA device against the reference, and its bits.
#include <algorithm>
#include <cmath>
#include <limits>

#include "gtest/gtest.h"
#include "kernels/cuda/cuda_testing.h"
#include "kernels/testing/op_runs.h"

namespace sluice::kernels {
namespace {

class CudaBatchNormTest : public CudaTest {
 protected:
  // The declared cases, and two whose channels are summed in several parts.
  std::vector<BatchNormCase> Cases() const {
    std::vector<BatchNormCase> cases;
    for (const BatchNormCase& c : BatchNormCases()) {
      if (!TooLarge(c.size())) cases.push_back(c);
    }
    cases.push_back({"plane in parts", {2, 5000, 1e-5}, 3, false});
    cases.push_back({"column in parts", {3, 1, 1e-5}, 700, false});
    for (const BatchNormCase& c : {cases.end()[-2], cases.back()}) {
      EXPECT_GT(cuda::ChannelSplits::Of(c.samples, c.shape.pixels).parts, 1);
    }
    return cases;
  }
};
SLUICE_CUDA_TEST_SUITE(CudaBatchNormTest);

// Normalize, then Apply with the statistics, which gives the same, and
// Backward.
void Execute(Device* device, const BatchNormCase& c, int64_t offset,
             BatchNormRun* run) {
  auto op = device->PrepareBatchNorm(c.shape, c.samples + 1);
  ASSERT_TRUE(op.ok()) << op.status();
  const Floats x(device, run->x, offset), gamma(device, run->gamma, offset),
      beta(device, run->beta, offset), dy(device, run->dy, offset);
  const auto channels = [&] {
    return Floats::Unwritten(device, c.shape.channels, offset);
  };
  const auto mean = channels(), variance = channels(), dgamma = channels(),
             dbeta = channels();
  const auto y = Floats::Unwritten(device, c.size(), offset);
  const auto again = Floats::Unwritten(device, c.size(), offset);
  const auto dx = Floats::Unwritten(device, c.size(), offset);
  ASSERT_TRUE((*op)
                  ->Normalize(c.samples, x.data(), gamma.data(), beta.data(),
                              mean.data(), variance.data(), y.data())
                  .ok());
  ASSERT_TRUE((*op)
                  ->Apply(c.samples, x.data(), gamma.data(), beta.data(),
                          mean.data(), variance.data(), again.data())
                  .ok());
  ASSERT_TRUE((*op)
                  ->Backward(c.samples, x.data(), gamma.data(), mean.data(),
                             variance.data(), dy.data(), dx.data(),
                             dgamma.data(), dbeta.data())
                  .ok());
  run->mean = mean.Read();
  run->variance = variance.Read();
  run->y = y.Read();
  EXPECT_TRUE(SameBits(again.Read(), run->y));
  run->dx = dx.Read();
  run->dgamma = dgamma.Read();
  run->dbeta = dbeta.Read();
  ASSERT_TRUE((*op)
                  ->Backward(c.samples, x.data(), gamma.data(), mean.data(),
                             variance.data(), dy.data(), nullptr, dbeta.data(),
                             dgamma.data())
                  .ok());
  EXPECT_TRUE(SameBits(dbeta.Read(), run->dgamma));
  EXPECT_TRUE(SameBits(dgamma.Read(), run->dbeta));
}

// Sums are in double on both sides: a mean or a variance differs by one
// rounding. |x| < 2, |dy|, |gamma| and |beta| are at most 1, `deviation` is the
// smallest of a channel, h = (x - mean) / deviation.
TEST_P(CudaBatchNormTest, AgreesWithTheReference) {
  for (const BatchNormCase& c : Cases()) {
    SCOPED_TRACE(c.name);
    BatchNormRun got = BatchNormArguments(c), want = got;
    Execute(device_.get(), c, 0, &got);
    Execute(reference_.get(), c, 0, &want);
    double deviation = 2;
    for (float v : want.variance) {
      deviation = std::min(deviation, std::sqrt(v + c.shape.epsilon));
    }
    const auto near = [](const std::vector<float>& a,
                         const std::vector<float>& b, double tolerance,
                         const char* what) {
      ExpectNear(
          a, b, [&](size_t) { return tolerance; }, what);
    };
    near(got.mean, want.mean, 2 * 2 * kUnit, "mean");
    // Squares below 16, around a mean that is off by as much.
    near(got.variance, want.variance, 16 * 2 * kUnit, "variance");
    const double h = 4 / deviation;
    // The mean is off by 4 units, the variance by 32; (x - mean) and its
    // product with the factor round.
    const double h_error =
        h * kUnit * (4 + 16 / (deviation * deviation)) + 4 * kUnit / deviation;
    near(got.y, want.y, h_error + 2 * kUnit * (h + 1), "y");
    const double count = static_cast<double>(c.samples * c.shape.pixels);
    near(got.dbeta, want.dbeta, 2 * kUnit * count, "dbeta");
    near(got.dgamma, want.dgamma, count * (h_error + 2 * kUnit * h), "dgamma");
    // gamma / deviation (dy - mean of dy - h times the mean of dy h)
    near(got.dx, want.dx,
         (1 / deviation) *
             ((2 + h * h) * kUnit * (8 + 16 / (deviation * deviation)) +
              2 * h * h_error),
         "dx");
  }
}

TEST_P(CudaBatchNormTest, BitsDoNotDependOnAlignment) {
  for (const BatchNormCase& c : Cases()) {
    SCOPED_TRACE(c.name);
    BatchNormRun want = BatchNormArguments(c), got = want;
    Execute(device_.get(), c, 0, &want);
    Execute(device_.get(), c, 1, &got);
    ExpectSameBits(got, want);
  }
}

TEST_P(CudaBatchNormTest, NanReachesTheStatistics) {
  for (int64_t pixels : {1, 40}) {
    auto op = *device_->PrepareBatchNorm({1, pixels, 1e-5}, 2);
    std::vector<float> values(2 * pixels, 1);
    values.back() = std::numeric_limits<float>::quiet_NaN();
    const Floats x(device_.get(), values), y(device_.get(), values),
        gamma(device_.get(), {1}), beta(device_.get(), {0}),
        mean(device_.get(), {0}), variance(device_.get(), {0});
    ASSERT_TRUE(op->Normalize(2, x.data(), gamma.data(), beta.data(),
                              mean.data(), variance.data(), y.data())
                    .ok());
    EXPECT_TRUE(std::isnan(mean.Read()[0]));
    EXPECT_TRUE(std::isnan(variance.Read()[0]));
  }
}

}  // namespace
}  // namespace sluice::kernels
