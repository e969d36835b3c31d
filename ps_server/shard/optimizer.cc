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
    if (!runs_.empty() && runs_.back().decay == tensor.decay &&
        runs_.back().moving_average == tensor.moving_average) {
      runs_.back().end = end;
    } else {
      runs_.push_back({begin, end, tensor.decay, tensor.moving_average});
    }
  }
  for (int i = 0; i < StateArrays(job_); ++i) {
    state_.push_back(MakeAlignedFloats(grid_.floats()));
  }
  Reset();
}

int Optimizer::StateArrays(const proto::Optimizer& job) {
  switch (job.kind_case()) {
    case proto::Optimizer::kSgd:
      return job.sgd().momentum() != 0 ? 1 : 0;
    case proto::Optimizer::kAdagrad:
      return 1;
    case proto::Optimizer::kAdam:
    case proto::Optimizer::kAdamw:
      return 2;
    case proto::Optimizer::kAveraging:
    case proto::Optimizer::KIND_NOT_SET:  // Plain SGD.
      return 0;
  }
  return 0;
}

void Optimizer::Reset() {
  const float first =
      job_.has_adagrad()
          ? static_cast<float>(job_.adagrad().initial_accumulator())
          : 0.0f;
  for (const AlignedFloats& array : state_) {
    std::fill_n(array.get(), grid_.floats(), first);
  }
}

void Optimizer::Apply(const Update& update, int chunk, const float* from,
                      float* to) {
  const int64_t chunk_begin = grid_.begin(chunk);
  const int64_t chunk_end = chunk_begin + grid_.size(chunk);
  for (const Run& run : runs_) {
    const int64_t begin = std::max(run.begin, chunk_begin);
    const int64_t end = std::min(run.end, chunk_end);
    if (begin >= end) continue;
    const int64_t offset = begin - chunk_begin;
    ApplyPart(update, {begin, end - begin, run.decay, run.moving_average,
                       from + offset, to + offset});
  }
}

void Optimizer::ApplyPart(const Update& update, const Part& part) {
  if (part.moving_average.has_value()) {
    return kernels::MovingAverageUpdate(
        static_cast<float>(*part.moving_average), Sum(update, part), part.size,
        part.from, part.to);
  }
  switch (job_.kind_case()) {
    case proto::Optimizer::kSgd:
    case proto::Optimizer::KIND_NOT_SET:  // SGD is the default.
      return ApplySgd(job_.sgd(), update, part);
    case proto::Optimizer::kAveraging:
      return ApplySgd(proto::Sgd(), update, part);
    case proto::Optimizer::kAdagrad:
      return ApplyAdagrad(update, part);
    case proto::Optimizer::kAdam:
    case proto::Optimizer::kAdamw:
      return ApplyAdam(update, part);
  }
}

void Optimizer::ApplySgd(const proto::Sgd& sgd, const Update& update,
                         const Part& part) {
  kernels::SgdOptions options;
  options.learning_rate = static_cast<float>(update.learning_rate);
  options.momentum = static_cast<float>(sgd.momentum());
  options.nesterov = sgd.nesterov();
  options.weight_decay =
      part.decay ? static_cast<float>(sgd.weight_decay()) : 0.0f;
  kernels::SgdUpdate(options, Sum(update, part), part.size, part.from,
                     state_.empty() ? nullptr : state_[0].get() + part.begin,
                     part.to);
}

void Optimizer::ApplyAdagrad(const Update& update, const Part& part) {
  kernels::AdagradOptions options;
  options.learning_rate = static_cast<float>(update.learning_rate);
  options.weight_decay =
      part.decay ? static_cast<float>(job_.adagrad().weight_decay()) : 0.0f;
  kernels::AdagradUpdate(options, Sum(update, part), part.size, part.from,
                         state_[0].get() + part.begin, part.to);
}

void Optimizer::ApplyAdam(const Update& update, const Part& part) {
  const auto options = [&](const auto& adam) {
    return kernels::AdamOptions{
        .learning_rate = update.learning_rate,
        .beta1 = adam.beta1(),
        .beta2 = adam.beta2(),
        .epsilon = adam.epsilon(),
        .weight_decay = part.decay ? adam.weight_decay() : 0,
        .decoupled = job_.has_adamw(),
        .update = update.version.value()};
  };
  kernels::AdamUpdate(
      job_.has_adamw() ? options(job_.adamw()) : options(job_.adam()),
      Sum(update, part), part.size, part.from, state_[0].get() + part.begin,
      state_[1].get() + part.begin, part.to);
}

kernels::WeightedGradients Optimizer::Sum(const Update& update,
                                          const Part& part) {
  shifted_.clear();
  for (const float* gradient : update.gradients) {
    shifted_.push_back(gradient + part.begin);
  }
  return {shifted_, update.factors};
}

}  // namespace sluice
