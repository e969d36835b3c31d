#include <algorithm>

#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/threads.h"
#include "kernels/cpu/vector_loops.h"

SLUICE_AVX2_BEGIN
namespace sluice::kernels {
namespace {

class CpuEmbedding : public EmbeddingOp {
 public:
  CpuEmbedding(const OneDnnContext* context, const EmbeddingShape& shape)
      : context_(*context), s_(shape) {}

  absl::Status Forward(int64_t samples, const float* x, const float* token,
                       const float* position, void* y) override {
    const int64_t features = s_.features;
    ParallelFor(context_.threads, samples * s_.length, 3 * features,
                [&](int64_t begin, int64_t end) {
                  for (int64_t i = begin; i < end; ++i) {
                    const float* of_token =
                        token + static_cast<int64_t>(x[i]) * features;
                    const float* of_place = position + i % s_.length * features;
                    float* to = AsFloats(y) + i * features;
                    for (int64_t c = 0; c < features; ++c) {
                      to[c] = of_token[c] + of_place[c];
                    }
                  }
                });
    return absl::OkStatus();
  }

  // Each thread has some of the features and adds up all places in order: no
  // two write to the same number, and how many there are changes no bit.
  absl::Status Backward(int64_t samples, const float* x, const void* dy,
                        bool add, float* dtoken, float* dposition) override {
    const int64_t features = s_.features, places = samples * s_.length;
    ParallelFor(context_.threads, features, 4 * places,
                [&](int64_t begin, int64_t end) {
                  if (!add) Zero(s_.vocabulary, begin, end, dtoken);
                  Zero(s_.length, begin, end, dposition);
                  for (int64_t i = 0; i < places; ++i) {
                    const float* from = AsFloats(dy) + i * features;
                    float* of_token =
                        dtoken + static_cast<int64_t>(x[i]) * features;
                    float* of_place = dposition + i % s_.length * features;
                    for (int64_t c = begin; c < end; ++c) {
                      of_token[c] += from[c];
                      of_place[c] += from[c];
                    }
                  }
                });
    return absl::OkStatus();
  }

 private:
  // The columns [begin, end) of so many rows.
  void Zero(int64_t rows, int64_t begin, int64_t end, float* table) const {
    for (int64_t row = 0; row < rows; ++row) {
      std::fill(table + row * s_.features + begin,
                table + row * s_.features + end, 0.0f);
    }
  }

  const OneDnnContext& context_;
  const EmbeddingShape s_;
};

}  // namespace

OpOr<EmbeddingShape> MakeCpuOp(const OneDnnContext* context,
                               const EmbeddingShape& shape, int64_t) {
  return std::make_unique<CpuEmbedding>(context, shape);
}

}  // namespace sluice::kernels
SLUICE_AVX2_END
