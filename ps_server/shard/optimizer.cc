#include "ps_server/shard/optimizer.h"

#include <algorithm>

namespace sluice {

Optimizer::Optimizer(const proto::Optimizer& job, const ParameterLayout& layout,
                     ParameterRange range, ChunkGrid grid)
    : job_(job), grid_(grid) {
  for (const TensorSpec& tensor : layout.tensors()) {
    const int64_t begin = std::max(tensor.offset, range.begin) - range.begin;
    const int64_t end =
        std::min(tensor.offset + tensor.size, range.end) - range.begin;
    if (begin >= end) continue;
    if (!runs_.empty() && runs_.back().decay == tensor.decay) {
      runs_.back().end = end;
    } else {
      runs_.push_back({begin, end, tensor.decay});
    }
  }
  if (job_.sgd().momentum() != 0) {
    velocity_ = MakeAlignedFloats(grid_.floats());
  }
  Reset();
}

void Optimizer::Reset() {
  if (velocity_) std::fill_n(velocity_.get(), grid_.floats(), 0.0f);
}

void Optimizer::Apply(double learning_rate,
                      absl::Span<const float* const> gradients,
                      absl::Span<const float> factors, int chunk,
                      const float* weights, float* updated) {
  const int64_t begin = grid_.begin(chunk);
  const int64_t end = begin + grid_.size(chunk);
  for (const Run& run : runs_) {
    const Run part = {std::max(run.begin, begin), std::min(run.end, end),
                      run.decay};
    if (part.begin >= part.end) continue;
    switch (job_.kind_case()) {
      case proto::Optimizer::kSgd:
      case proto::Optimizer::KIND_NOT_SET:  // SGD is the default.
        ApplySgd(learning_rate, part, gradients, factors, begin, weights,
                 updated);
    }
  }
}

void Optimizer::ApplySgd(double learning_rate, const Run& part,
                         absl::Span<const float* const> gradients,
                         absl::Span<const float> factors, int64_t chunk_begin,
                         const float* weights, float* updated) {
  const proto::Sgd& sgd = job_.sgd();
  kernels::SgdOptions options;
  options.learning_rate = static_cast<float>(learning_rate);
  options.momentum = static_cast<float>(sgd.momentum());
  options.nesterov = sgd.nesterov();
  options.weight_decay =
      part.decay ? static_cast<float>(sgd.weight_decay()) : 0.0f;
  shifted_.clear();
  for (const float* gradient : gradients) {
    shifted_.push_back(gradient + part.begin);
  }
  const int64_t in_chunk = part.begin - chunk_begin;
  kernels::SgdUpdate(
      options, {shifted_, factors}, part.end - part.begin, weights + in_chunk,
      velocity_ ? velocity_.get() + part.begin : nullptr, updated + in_chunk);
}

}  // namespace sluice
