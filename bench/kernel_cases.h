#ifndef SLUICE_BENCH_KERNEL_CASES_H_
#define SLUICE_BENCH_KERNEL_CASES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/testing/op_cases.h"
#include "kernels/testing/sequence_cases.h"

namespace sluice::bench {

// Dropout, a sum, a loss or a vector: rows of `width` numbers.
struct RowsCase {
  std::string name;
  int64_t width = 1;
  int64_t samples = 1;

  int64_t size() const { return samples * width; }
};

// What to measure: of each kind of operation some cases.
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

// Those of the tests' declared cases that are worth it: they stay in the cache
// of a CPU.
KernelCases CasesInCache();

// Whose inputs have `mib` MiB as floats, or a part of a sample more. Those of
// losses and of sums of squares have four times as many, since each call waits
// for its result; what embedding looks up becomes so many.
KernelCases CasesInMemory(int64_t mib);

}  // namespace sluice::bench

#endif  // SLUICE_BENCH_KERNEL_CASES_H_
