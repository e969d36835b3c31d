// Batch normalisation of the CUDA device against the reference, and its bits.
#include <algorithm>
#include <cmath>
#include <limits>

#include "gtest/gtest.h"
#include "kernels/cuda/testing/cuda_testing.h"
#include "kernels/testing/op_runs.h"

namespace sluice::kernels {
namespace {

class CudaBatchNormTest : public CudaTest {
 protected:
  // The declared cases, one with relu, and some whose channels are summed in
  // several parts.
  std::vector<BatchNormCase> Cases() const {
    std::vector<BatchNormCase> cases;
    for (const BatchNormCase& c : BatchNormCases()) {
      if (!TooLarge(c.size())) cases.push_back(c);
    }
    cases.push_back(WithRelu(cases.back()));
    cases.push_back({"plane in parts", {2, 5000, 1e-5}, 3, false});
    cases.push_back({"rows in parts", {3, 1, 1e-5}, 3000, false});
    cases.push_back({"rows of packs in parts", {24, 1, 1e-5}, 3000, false});
    cases.push_back({"many parts", {1, 140000, 1e-5}, 1, false});
    for (auto c = cases.end() - 4; c != cases.end(); ++c) {
      const int64_t channels = c->shape.channels;
      EXPECT_GT(cuda::ChannelSumParts(precision(), c->samples, channels,
                                      c->shape.pixels),
                channels);
    }
    return cases;
  }

  BatchNormRun Arguments(const BatchNormCase& c) const {
    BatchNormRun run = BatchNormArguments(c);
    run.x = Rounded(run.x);
    run.dy = Rounded(run.dy);
    return run;
  }
  // On the device, and on the reference.
  void Execute(const BatchNormCase& c, int64_t offset, BatchNormRun* run) {
    ExecuteOn(device_.get(), precision(), c, offset, run);
  }
  void ExecuteReference(const BatchNormCase& c, BatchNormRun* run) {
    ExecuteOn(reference_.get(), Precision::kFp32, c, 0, run);
  }
  // Normalize, then Apply with the statistics, which gives the same, and
  // Backward, on a device that has activations in `precision`.
  static void ExecuteOn(Device* device, Precision precision,
                        const BatchNormCase& c, int64_t offset,
                        BatchNormRun* run);

  // Mean and variance of a channel of 2 samples of ones but for one number, the
  // first or the last.
  BatchNormRun StatisticsWith(float value, int64_t pixels, bool first) const;
};
SLUICE_CUDA_OWN_KERNELS_TEST_SUITE(CudaBatchNormTest);

void CudaBatchNormTest::ExecuteOn(Device* device, Precision precision,
                                  const BatchNormCase& c, int64_t offset,
                                  BatchNormRun* run) {
  auto op = device->Prepare(c.shape, c.samples + 1);
  ASSERT_TRUE(op.ok()) << op.status();
  const auto images = [&](const std::vector<float>& values) {
    return Activations(device, precision, values, offset, c.shape.channels,
                       c.shape.pixels);
  };
  const auto unwritten = [&] {
    return images(std::vector<float>(c.size(), std::nanf("")));
  };
  const auto x = images(run->x), dy = images(run->dy);
  const Floats gamma(device, run->gamma, offset),
      beta(device, run->beta, offset);
  const auto channels = [&] {
    return Floats::Unwritten(device, c.shape.channels, offset);
  };
  const auto mean = channels(), variance = channels(), dgamma = channels(),
             dbeta = channels();
  const auto y = unwritten(), again = unwritten(), dx = unwritten();
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
// smallest of a channel, h = (x - mean) / deviation. y and dx are stored.
TEST_P(CudaBatchNormTest, AgreesWithTheReference) {
  for (const BatchNormCase& c : Cases()) {
    SCOPED_TRACE(c.name);
    BatchNormRun got = Arguments(c), want = got;
    Execute(c, 0, &got);
    ExecuteReference(c, &want);
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
    const auto stored_near = [&](const std::vector<float>& a,
                                 const std::vector<float>& b, double tolerance,
                                 const char* what) {
      ExpectStoredNear(a, b, tolerance, stored(), what);
    };
    near(got.mean, want.mean, 2 * 2 * kUnit, "mean");
    // Squares below 16, around a mean that is off by as much.
    near(got.variance, want.variance, 16 * 2 * kUnit, "variance");
    const double h = 4 / deviation;
    // The mean is off by 4 units, the variance by 32; (x - mean) and its
    // product with the factor round.
    const double h_error =
        h * kUnit * (4 + 16 / (deviation * deviation)) + 4 * kUnit / deviation;
    stored_near(got.y, want.y, h_error + 2 * kUnit * (h + 1), "y");
    const double count = static_cast<double>(c.samples * c.shape.pixels);
    near(got.dbeta, want.dbeta, 2 * kUnit * count, "dbeta");
    near(got.dgamma, want.dgamma, count * (h_error + 2 * kUnit * h), "dgamma");
    // gamma / deviation (dy - mean of dy - h times the mean of dy h)
    stored_near(got.dx, want.dx,
                (1 / deviation) *
                    ((2 + h * h) * kUnit * (8 + 16 / (deviation * deviation)) +
                     2 * h * h_error),
                "dx");
  }
}

TEST_P(CudaBatchNormTest, BitsDoNotDependOnAlignment) {
  for (const BatchNormCase& c : Cases()) {
    SCOPED_TRACE(c.name);
    BatchNormRun want = Arguments(c), got = want;
    Execute(c, 0, &want);
    Execute(c, 1, &got);
    ExpectSameBits(got, want);
  }
}

TEST_P(CudaBatchNormTest, WithReluTheBitsAreThoseOfReluBehindIt) {
  for (const BatchNormCase& c : Cases()) {
    SCOPED_TRACE(c.name);
    BatchNormRun without = Arguments(c);
    if (!without.x.empty()) without.x[0] = std::nanf("");
    BatchNormRun with = without;
    Execute(c, 1, &without);
    Execute(WithRelu(c), 1, &with);
    ExpectReluOf(without, with);
  }
}

// Near 1000 floats are 2^-14 apart; the variance is 1e-4, 1e10 times below the
// square of the mean. In 16 bits all are 1000, and the variance is 0.
TEST_P(CudaBatchNormTest, AVarianceIsAsPreciseBesideALargeMean) {
  for (const BatchNormCase& c : Cases()) {
    SCOPED_TRACE(c.name);
    BatchNormRun got = Arguments(c);
    got.x = ToFloats(UniformValues(c.size(), 5));
    for (float& x : got.x) x = 1000 + 0.0173f * x;
    got.x = Rounded(got.x);
    BatchNormRun want = got;
    Execute(c, 0, &got);
    ExecuteReference(c, &want);
    EXPECT_TRUE(SameBits(got.mean, want.mean));
    // What sums in double lose is below a rounding: neighbouring floats.
    const auto neighbour = [&](size_t i) {
      return 2 * kUnit * want.variance[i];
    };
    ExpectNear(got.variance, want.variance, neighbour, "variance");
  }
}

BatchNormRun CudaBatchNormTest::StatisticsWith(float value, int64_t pixels,
                                               bool first) const {
  Device* const device = device_.get();
  auto op = *device->Prepare(BatchNormShape{1, pixels, 1e-5}, 2);
  std::vector<float> values(2 * pixels, 1);
  (first ? values.front() : values.back()) = value;
  const Activations x(device, precision(), values),
      y(device, precision(), values);
  const Floats gamma(device, {1}), beta(device, {0}), mean(device, {0}),
      variance(device, {0});
  EXPECT_TRUE(op->Normalize(2, x.data(), gamma.data(), beta.data(), mean.data(),
                            variance.data(), y.data())
                  .ok());
  BatchNormRun run;
  run.mean = mean.Read();
  run.variance = variance.Read();
  return run;
}

TEST_P(CudaBatchNormTest, NanReachesTheStatistics) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (int64_t pixels : {1, 40}) {
    for (bool first : {false, true}) {
      const auto run = StatisticsWith(nan, pixels, first);
      EXPECT_TRUE(std::isnan(run.mean[0]));
      EXPECT_TRUE(std::isnan(run.variance[0]));
    }
  }
}

TEST_P(CudaBatchNormTest, AnInfiniteNumberMakesTheMeanInfinite) {
  const float infinity = std::numeric_limits<float>::infinity();
  for (int64_t pixels : {1, 40}) {
    for (bool first : {false, true}) {
      const auto run = StatisticsWith(-infinity, pixels, first);
      EXPECT_EQ(run.mean[0], -infinity);
      EXPECT_TRUE(std::isnan(run.variance[0]));
    }
  }
}

}  // namespace
}  // namespace sluice::kernels
