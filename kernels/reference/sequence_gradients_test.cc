// As gradient_check_test.cc, of the operations on sequences; and what attention
// may not see.
#include "gtest/gtest.h"
#include "kernels/reference/attention.h"
#include "kernels/testing/finite_differences.h"
#include "kernels/reference/sequence_ops.h"
#include "kernels/testing/op_cases.h"
#include "kernels/testing/sequence_cases.h"

namespace sluice::kernels {
namespace {

TEST(SequenceGradientsTest, Embedding) {
  for (const EmbeddingCase& c : EmbeddingCases()) {
    if (c.size() + c.shape.token_size() > 2 * kLargestSize) continue;
    SCOPED_TRACE(c.name);
    const Vector x = Tokens(c);
    Vector token = UniformValues(c.shape.token_size(), 1);
    Vector position = UniformValues(c.shape.position_size(), 2);
    const Vector dy = UniformValues(c.size(), 3);
    Vector y(dy.size()), dtoken(token.size(), 7), dposition(position.size(), 7);
    reference::EmbeddingBackward(c.shape, c.samples, x.data(), dy.data(),
                                 /*add=*/false, dtoken.data(),
                                 dposition.data());
    const auto f = [&] {
      reference::EmbeddingForward(c.shape, c.samples, x.data(), token.data(),
                                  position.data(), y.data());
      return Dot(dy, y);
    };
    // Linear in each table.
    const double terms = dy.size() + 2.0;
    const double scale = 2 * MagnitudeSum(dy);
    CheckGradient(f, &token, dtoken, scale, terms, 0, "dtoken");
    CheckGradient(f, &position, dposition, scale, terms, 0, "dposition");
  }
}

TEST(SequenceGradientsTest, AnEmbeddingsGradientIsAddedToAnothersWhereAsked) {
  const EmbeddingCase c = {"", {5, 3, 2}, 4};
  const Vector x = Tokens(c), dy = UniformValues(c.size(), 3);
  Vector alone(6, 7), both = {1, 2, 3, 4, 5, 6}, dposition(10);
  reference::EmbeddingBackward(c.shape, 4, x.data(), dy.data(), false,
                               alone.data(), dposition.data());
  reference::EmbeddingBackward(c.shape, 4, x.data(), dy.data(), true,
                               both.data(), dposition.data());
  for (int i = 0; i < 6; ++i) {
    // 20 additions of numbers below 1 to one of at most 6.
    EXPECT_NEAR(both[i], alone[i] + i + 1, 26 * 20 * kUnit);
  }
}

TEST(SequenceGradientsTest, LayerNorm) {
  for (const LayerNormCase& c : LayerNormCases()) {
    if (c.size() > kLargestSize) continue;
    SCOPED_TRACE(c.name);
    const LayerNormShape& s = c.shape;
    Vector x = SpreadValues(c.size(), 1);
    Vector gamma = UniformValues(s.features, 2);
    Vector beta = UniformValues(s.features, 3);
    const Vector dy = UniformValues(c.size(), 4);
    Vector y(x.size()), dx(x.size()), dgamma(s.features), dbeta(s.features);
    const auto f = [&] {
      reference::LayerNormForward(s, c.samples, x.data(), gamma.data(),
                                  beta.data(), y.data());
      return Dot(dy, y);
    };
    reference::LayerNormBackward(s, c.samples, x.data(), gamma.data(),
                                 dy.data(), dx.data(), dgamma.data(),
                                 dbeta.data());
    double least = 2;
    for (int64_t at = 0; at < c.size(); at += s.group_size()) {
      least =
          std::min(least, reference::StatisticsOf(s, x.data() + at).deviation);
    }
    // As batch norm's.
    const double third = 60 * MagnitudeSum(dy) / std::pow(least, 3);
    const double scale = MagnitudeSum(dy) * (4 / least + 1);
    const double terms = c.size() + 16.0;
    CheckGradient(f, &x, dx, scale, terms, third, "dx");
    CheckGradient(f, &gamma, dgamma, scale, terms, 0, "dgamma");
    CheckGradient(f, &beta, dbeta, scale, terms, 0, "dbeta");
  }
}

TEST(LayerNormTest, AGroupOfChannelsIsNormalizedWithItsPixels) {
  // Two groups of two channels of two pixels: mean 3, variance 5; mean 10 and
  // variance 0.
  const LayerNormShape shape = {1, 4, 4.0, 2, 2};
  const Vector x = {0, 2, 4, 6, 10, 10, 10, 10};
  const Vector gamma = {3, 6, 1, 1}, beta = {0, 1, 2, 3};
  Vector y(8);
  reference::LayerNormForward(shape, 1, x.data(), gamma.data(), beta.data(),
                              y.data());
  EXPECT_EQ(y, (Vector{-3, -1, 3, 7, 2, 2, 3, 3}));
}

TEST(SequenceGradientsTest, Attention) {
  for (const AttentionCase& c : AttentionCases()) {
    if (c.operations() > 10 * kLargestSize) continue;
    SCOPED_TRACE(c.name);
    Vector x = SpreadValues(c.input_size(), 5);
    const Vector dy = UniformValues(c.output_size(), 6);
    Vector y(dy.size()), dx(x.size());
    const auto f = [&] {
      reference::AttentionForward(c.shape, c.samples, x.data(), y.data());
      return Dot(dy, y);
    };
    reference::AttentionBackward(c.shape, c.samples, x.data(), dy.data(),
                                 dx.data());
    // The third derivative of a softmax's mean of values, |v| < 2, by what
    // moves its scores by at most a = 2 / sqrt(d) each is their joint cumulant
    // of v and three a: at most 26 terms of 2 a^3.
    const double root = std::sqrt(static_cast<double>(c.shape.head_size));
    const double a = 2 / root;
    const double third = 26 * 2 * a * a * a * MagnitudeSum(dy);
    // Scores of up to 4 sqrt(d) round to as many units, which are a share of p.
    const double terms = dy.size() + 8 * root * (c.shape.head_size + 3.0) +
                         2.0 * c.shape.length + 32;
    CheckGradient(f, &x, dx, 2 * MagnitudeSum(dy), terms, third, "dx");
  }
}

TEST(AttentionTest, IsTheMeanOfTheValuesWhereAllScoresAreEqual) {
  // Queries of 0; values 3 and 9, then 0.
  const AttentionShape shape = {3, 1, 1};
  const Vector x = {0, 5, 3, 0, -5, 9, 0, 1, 0};
  Vector y(3);
  reference::AttentionForward(shape, 1, x.data(), y.data());
  EXPECT_EQ(y, (Vector{3, 6, 4}));
}

TEST(AttentionTest, ScoresAreOverTheRootOfTheHeadsSize) {
  // Of four numbers: a score of log 3 is q . k = 2 log 3.
  const AttentionShape shape = {2, 1, 4};
  Vector x(24), y(8);
  x[12] = 2 * std::log(3);  // The second place's query,
  x[16] = 1;                // key
  x[20] = 1;                // and value.
  reference::AttentionForward(shape, 1, x.data(), y.data());
  EXPECT_DOUBLE_EQ(y[4], 0.75);
}

}  // namespace
}  // namespace sluice::kernels
