#ifndef SLUICE_KERNELS_TESTING_SEQUENCE_CASES_H_
#define SLUICE_KERNELS_TESTING_SEQUENCE_CASES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/shapes.h"

// The declared cases of the operations on sequences, for the same uses as
// op_cases.h's.
namespace sluice::kernels {

struct EmbeddingCase {
  std::string name;
  EmbeddingShape shape;
  int64_t samples = 1;
  bool benchmark = false;

  int64_t size() const { return samples * shape.output_size(); }  // Of y.
};

struct LayerNormCase {
  std::string name;
  LayerNormShape shape;
  int64_t samples = 1;
  bool benchmark = false;

  int64_t size() const { return samples * shape.size(); }  // Floats of x.
};

struct AttentionCase {
  std::string name;
  AttentionShape shape;
  int64_t samples = 1;
  bool benchmark = false;

  int64_t input_size() const { return samples * shape.input_size(); }
  int64_t output_size() const { return samples * shape.output_size(); }
  // Multiplications and additions of Forward for all pairs of places, also
  // those that the mask leaves out; Backward has five products in place of two.
  int64_t operations() const;
};

std::vector<EmbeddingCase> EmbeddingCases();
std::vector<LayerNormCase> LayerNormCases();
std::vector<AttentionCase> AttentionCases();

// The case's tokens, (samples, length).
std::vector<double> Tokens(const EmbeddingCase& c);

}  // namespace sluice::kernels

#endif  // SLUICE_KERNELS_TESTING_SEQUENCE_CASES_H_
