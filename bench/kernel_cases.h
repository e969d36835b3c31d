#ifndef SLUICE_BENCH_KERNEL_CASES_H_
#define SLUICE_BENCH_KERNEL_CASES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/testing/op_cases.h"
#include "kernels/testing/sequence_cases.h"

namespace sluice::bench {

// Dropout, a sum, a loss or a vector operation on rows of `width` numbers.
struct RowsCase {
  std::string name;
  int64_t width = 1;
  int64_t samples = 1;

  int64_t size() const { return samples * width; }
};

// The cases to measure, for each kind of operation.
struct KernelCases {
  std::vector<kernels::LinearCase> linear;
  std::vector<kernels::AttentionCase> attentions;
  std::vector<kernels::MapCase> maps;
  std::vector<RowsCase> dropouts, sums;
  std::vector<RowsCase> cross_entropies, squared_errors;
  std::vector<RowsCase> vector_adds, vector_squares;
  std::vector<kernels::BatchNormCase> batch_norms;
  std::vector<kernels::LayerNormCase> layer_norms;
  std::vector<kernels::EmbeddingCase> embeddings;
};

// Those of the tests' declared cases that are large enough. They stay in a
// CPU's cache.
KernelCases CasesInCache();

// Cases whose inputs have `mib` MiB as floats, or up to a sample more. Losses
// and sums of squares have four times as many, because each call waits for its
// result. For an embedding the size is that of the looked-up vectors.
KernelCases CasesInMemory(int64_t mib);

}  // namespace sluice::bench

#endif  // SLUICE_BENCH_KERNEL_CASES_H_
