#include "kernels/testing/sequence_runs.h"

#include <algorithm>
#include <cmath>

#include "gtest/gtest.h"
#include "kernels/testing/op_cases.h"

namespace sluice::kernels {
namespace {

void ExpectAllNear(const std::vector<float>& got,
                   const std::vector<float>& want, double tolerance,
                   const char* what) {
  ExpectNear(
      got, want, [&](size_t) { return tolerance; }, what);
}

// The smallest of a group's; the reference's.
double LeastDeviation(const LayerNormCase& c, const std::vector<float>& x) {
  const int64_t m = c.shape.group_size();
  double least = 2;
  for (auto begin = x.begin(); begin != x.end(); begin += m) {
    double sum = 0, squares = 0;
    std::for_each(begin, begin + m, [&](float v) { sum += v; });
    std::for_each(begin, begin + m,
                  [&](float v) { squares += (v - sum / m) * (v - sum / m); });
    least = std::min(least, std::sqrt(squares / m + c.shape.epsilon));
  }
  return least;
}

}  // namespace

EmbeddingRun EmbeddingArguments(const EmbeddingCase& c) {
  EmbeddingRun run;
  run.x = ToFloats(Tokens(c));
  run.token = ToFloats(UniformValues(c.shape.token_size(), 1));
  run.position = ToFloats(UniformValues(c.shape.position_size(), 2));
  run.dy = ToFloats(UniformValues(c.size(), 3));
  run.before = ToFloats(UniformValues(c.shape.token_size(), 4));
  return run;
}

void ExpectWithinRounding(const EmbeddingCase& c, const EmbeddingRun& got,
                          const EmbeddingRun& want) {
  EXPECT_TRUE(SameBits(got.y, want.y)) << "y";  // One addition.
  // Each place adds at most 1 to a token's sum; one more for the reference's
  // rounding.
  const double places = static_cast<double>(c.samples * c.shape.length);
  ExpectAllNear(got.dtoken, want.dtoken, (places + 1) * kUnit * places,
                "dtoken");
  ExpectAllNear(got.added, want.added, (places + 2) * kUnit * (places + 1),
                "added");
  const double samples = static_cast<double>(c.samples);
  ExpectAllNear(got.dposition, want.dposition, (samples + 1) * kUnit * samples,
                "dposition");
}

void ExpectSameBits(const EmbeddingRun& a, const EmbeddingRun& b) {
  EXPECT_TRUE(SameBits(a.y, b.y)) << "y";
  EXPECT_TRUE(SameBits(a.dtoken, b.dtoken)) << "dtoken";
  EXPECT_TRUE(SameBits(a.added, b.added)) << "added";
  EXPECT_TRUE(SameBits(a.dposition, b.dposition)) << "dposition";
}

LayerNormRun LayerNormArguments(const LayerNormCase& c) {
  LayerNormRun run;
  run.x = ToFloats(SpreadValues(c.size(), 1));
  run.gamma = ToFloats(UniformValues(c.shape.features, 2));
  run.beta = ToFloats(UniformValues(c.shape.features, 3));
  run.dy = ToFloats(UniformValues(c.size(), 4));
  return run;
}

void ExpectWithinRounding(const LayerNormCase& c, double sum,
                          const LayerNormRun& got, const LayerNormRun& want,
                          const StoredRounding& stored) {
  const double deviation = LeastDeviation(c, got.x);
  // h = (x - mean) / deviation, |h| < 4 / deviation: the mean is off by 2 sum,
  // the variance, a mean of squares below 16, by 16 sum and the rounding of
  // what is squared.
  const double h = 4 / deviation;
  const double share = 8 * (sum + 3 * kUnit) / (deviation * deviation);
  const double h_error =
      (2 * sum + 4 * kUnit) / deviation + h * share + 4 * kUnit * h;
  ExpectStoredNear(got.y, want.y, h_error + 2 * kUnit * (h + 1), stored, "y");
  // Over rows and pixels, of which each adds at most 1 or h.
  const double terms =
      static_cast<double>(c.samples * c.shape.rows * c.shape.pixels);
  ExpectAllNear(got.dbeta, want.dbeta, terms * (terms + 1) * kUnit, "dbeta");
  ExpectAllNear(got.dgamma, want.dgamma,
                terms * (h_error + (terms + 2) * kUnit * h), "dgamma");
  // (g - mean of g - h times the mean of g h) / deviation
  const double slopes =
      (2 + h * h) * (2 * share + sum + 8 * kUnit) + 2 * h * h_error;
  ExpectStoredNear(got.dx, want.dx, (1 / deviation) * slopes, stored, "dx");
}

void ExpectSameBits(const LayerNormRun& a, const LayerNormRun& b) {
  EXPECT_TRUE(SameBits(a.y, b.y)) << "y";
  EXPECT_TRUE(SameBits(a.dx, b.dx)) << "dx";
  EXPECT_TRUE(SameBits(a.dgamma, b.dgamma)) << "dgamma";
  EXPECT_TRUE(SameBits(a.dbeta, b.dbeta)) << "dbeta";
}

AttentionRun AttentionArguments(const AttentionCase& c) {
  AttentionRun run;
  run.x = ToFloats(SpreadValues(c.input_size(), 5));
  run.dy = ToFloats(UniformValues(c.output_size(), 6));
  return run;
}

void ExpectWithinRounding(const AttentionCase& c, const AttentionRun& got,
                          const AttentionRun& want,
                          const ProductRounding& rounding,
                          const StoredRounding& stored) {
  const auto d = static_cast<double>(c.shape.head_size);
  const auto length = static_cast<double>(c.shape.length);
  const double root = std::sqrt(d);
  // A sum of products is off by a share of its magnitudes' sum; and by as much
  // for each product whose factors are at most a and b.
  const auto share = [&](double terms) {
    return std::pow(1 + rounding.factor, 2) * (1 + terms * rounding.sum) - 1;
  };
  const auto tiny = [&](double a, double b) {
    return 2 * rounding.tiny * (a + b);
  };
  // A score is a sum of d products below 4, over sqrt(d), less the largest;
  // what it is off by is a share of its exp and of the sum that divides it. exp
  // itself is good to a few units, their sum to `length`.
  const double score = 4 * root * share(d + 3) + root * tiny(2, 2);
  const double p = std::expm1(2 * score) + (length + 16) * kUnit;
  // y is a mean of values below 2, dv a sum over places of p dy.
  const double row = (1 + p) * (1 + share(length + 2)) - 1;
  ExpectStoredNear(got.y, want.y, 2 * row + length * tiny(1, 2), stored, "y");
  const double dv = length * (row + tiny(1, 1));
  // a = dy . v is a sum of d products below 2; of b = p (a - mean of a) the p
  // sum to 1 over a row, and to at most `length` over a column. dq and dk are
  // sums of `length` of these times numbers below 2, over sqrt(d).
  const double a = 2 * d * share(d + 1) + d * tiny(1, 2);
  const double b =
      (2 * a + 2 * d * (p + length * kUnit) + 4 * d * (p + kUnit)) * (1 + p);
  const double dk =
      length / root *
      (2 * (b + (b + 4 * d) * share(length + 3)) + tiny(4 * d + b, 2));
  ExpectStoredNear(got.dx, want.dx, std::max(dv, dk), stored, "dx");
}

void ExpectSameBits(const AttentionRun& a, const AttentionRun& b) {
  EXPECT_TRUE(SameBits(a.y, b.y)) << "y";
  EXPECT_TRUE(SameBits(a.dx, b.dx)) << "dx";
}

}  // namespace sluice::kernels
