#include "kernels/testing/op_runs.h"

#include <cmath>

#include "gtest/gtest.h"

namespace sluice::kernels {

LinearRun LinearArguments(const LinearCase& c) {
  LinearRun run;
  run.x = ToFloats(UniformValues(c.samples * c.input_size(), 1));
  run.w = ToFloats(UniformValues(c.weight_size(), 2));
  run.b = ToFloats(UniformValues(c.bias_size(), 3));
  run.dy = ToFloats(UniformValues(c.samples * c.output_size(), 4));
  return run;
}

LinearRun MagnitudesOf(const LinearRun& run) {
  LinearRun magnitudes;
  magnitudes.x = Magnitudes(run.x);
  magnitudes.w = Magnitudes(run.w);
  magnitudes.b = Magnitudes(run.b);
  magnitudes.dy = Magnitudes(run.dy);
  return magnitudes;
}

void ExpectWithinRounding(const LinearCase& c, const LinearRun& got,
                          const LinearRun& want, const LinearRun& magnitudes,
                          const ProductRounding& rounding) {
  const auto bound = [&](int64_t terms, const std::vector<float>& size,
                         int times) {
    const double rounded = std::pow(1 + rounding.factor, times);
    const double share = rounded * (1 + (terms + 1) * rounding.sum) - 1;
    // Of two factors of at most 1, and of the result.
    const double tiny =
        times == 0 ? 0 : (2 * terms + 1) * rounding.tiny * rounded;
    return [=, &size](size_t i) { return share * size[i] + tiny; };
  };
  const ProductRounding::Times& times = rounding.times;
  ExpectNear(got.y, want.y, bound(c.forward_terms(), magnitudes.y, times.y),
             "y");
  ExpectNear(got.dx, want.dx, bound(c.input_terms(), magnitudes.dx, times.dx),
             "dx");
  ExpectNear(got.dw, want.dw, bound(c.weight_terms(), magnitudes.dw, times.dw),
             "dw");
  // No products.
  const auto db = [&](size_t i) {
    return (c.weight_terms() + 1) * kUnit * magnitudes.db[i];
  };
  ExpectNear(got.db, want.db, db, "db");
}

void ExpectSameBits(const LinearRun& a, const LinearRun& b) {
  EXPECT_TRUE(SameBits(a.y, b.y)) << "y";
  EXPECT_TRUE(SameBits(a.dx, b.dx)) << "dx";
  EXPECT_TRUE(SameBits(a.dw, b.dw)) << "dw";
  EXPECT_TRUE(SameBits(a.db, b.db)) << "db";
}

void ExpectReluOf(const LinearRun& without, const LinearRun& with) {
  LinearRun want = without;
  want.y = ReluOfEach(want.y);
  ExpectSameBits(with, want);
}

BatchNormRun BatchNormArguments(const BatchNormCase& c) {
  BatchNormRun run;
  run.x = ToFloats(SpreadValues(c.size(), 1));
  run.gamma = ToFloats(UniformValues(c.shape.channels, 2));
  run.beta = ToFloats(UniformValues(c.shape.channels, 3));
  run.dy = ToFloats(UniformValues(c.size(), 4));
  return run;
}

void ExpectSameBits(const BatchNormRun& a, const BatchNormRun& b) {
  EXPECT_TRUE(SameBits(a.y, b.y)) << "y";
  EXPECT_TRUE(SameBits(a.mean, b.mean)) << "mean";
  EXPECT_TRUE(SameBits(a.variance, b.variance)) << "variance";
  EXPECT_TRUE(SameBits(a.dx, b.dx)) << "dx";
  EXPECT_TRUE(SameBits(a.dgamma, b.dgamma)) << "dgamma";
  EXPECT_TRUE(SameBits(a.dbeta, b.dbeta)) << "dbeta";
}

void ExpectReluOf(const BatchNormRun& without, const BatchNormRun& with) {
  BatchNormRun want = without;
  want.y = ReluOfEach(want.y);
  ExpectSameBits(with, want);
}

}  // namespace sluice::kernels
