#ifndef SLUICE_KERNELS_TESTING_SEQUENCE_RUNS_H_
#define SLUICE_KERNELS_TESTING_SEQUENCE_RUNS_H_

#include <vector>

#include "kernels/testing/comparison.h"
#include "kernels/testing/sequence_cases.h"

// As op_runs.h, of the operations on sequences. `got` is a device's, `want` the
// reference's.
namespace sluice::kernels {

struct EmbeddingRun {
  std::vector<float> x, token, position, dy, before;
  // `added` is dtoken on top of `before`.
  std::vector<float> y, dtoken, dposition, added;
};

// Inputs in [-1, 1); outputs empty.
EmbeddingRun EmbeddingArguments(const EmbeddingCase& c);
// Sums in any order, in float.
void ExpectWithinRounding(const EmbeddingCase& c, const EmbeddingRun& got,
                          const EmbeddingRun& want);
void ExpectSameBits(const EmbeddingRun& a, const EmbeddingRun& b);

struct LayerNormRun {
  std::vector<float> x, gamma, beta, dy;
  std::vector<float> y, dx, dgamma, dbeta;
};

// |x| < 2, the others in [-1, 1); outputs empty.
LayerNormRun LayerNormArguments(const LayerNormCase& c);
// `sum`: how far a sum over a row may be off, in units of its magnitudes' sum;
// `stored`: y and dx.
void ExpectWithinRounding(const LayerNormCase& c, double sum,
                          const LayerNormRun& got, const LayerNormRun& want,
                          const StoredRounding& stored = {});
void ExpectSameBits(const LayerNormRun& a, const LayerNormRun& b);

struct AttentionRun {
  std::vector<float> x, dy;
  std::vector<float> y, dx;
};

// |x| < 2, |dy| <= 1; outputs empty.
AttentionRun AttentionArguments(const AttentionCase& c);
// Sums in any order; `stored`: y and dx.
void ExpectWithinRounding(const AttentionCase& c, const AttentionRun& got,
                          const AttentionRun& want,
                          const ProductRounding& rounding = {},
                          const StoredRounding& stored = {});
void ExpectSameBits(const AttentionRun& a, const AttentionRun& b);

}  // namespace sluice::kernels

#endif  // SLUICE_KERNELS_TESTING_SEQUENCE_RUNS_H_
