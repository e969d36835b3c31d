// A chunk of state that a checkpoint holds is not written: Apply puts a copy in
// its place first. Weights need no such copy here, since `from` and `to` are
// two chunks when somebody reads (WeightStore::Prepare).
//
// An update goes chunk by chunk, and within a chunk by runs, because a chunk
// may have tensors that are treated differently. The sum of the gradients is
// made by the same kernel that applies it, so no memory is needed for it. With
// chunks of 100 floats and the tensors kernel (150), bias (10, no decay), mean
// (20, a statistic):
//
//   runs_      [0, 150) decay   [150, 160) none   [160, 180) moving average
//   chunk 0    [0, 100)         SGD with decay
//   chunk 1    [100, 150)       SGD with decay
//              [150, 160)       SGD
//              [160, 180)       moving average
#include "ps_server/shard/optimizer.h"

#include <algorithm>

namespace sluice {

Optimizer::Optimizer(const proto::Optimizer& job, const ParameterLayout& layout,
                     ParameterRange range, ChunkGrid grid)
    : job_(job), grid_(grid), pool_(grid.size(0)) {
  for (const TensorSpec& tensor : layout.tensors()) {
    const int64_t begin = std::max(tensor.offset, range.begin) - range.begin;
    const int64_t end =
        std::min(tensor.offset + tensor.size, range.end) - range.begin;
    if (begin >= end) continue;
    if (!runs_.empty() && runs_.back().factors == tensor.factors &&
        runs_.back().moving_average == tensor.moving_average) {
      runs_.back().end = end;
    } else {
      runs_.push_back({begin, end, tensor.factors, tensor.moving_average});
    }
  }
  state_.resize(StateArrays(job_));
  for (std::vector<ChunkRef>& array : state_) {
    for (int i = 0; i < grid_.count(); ++i) array.push_back(pool_.Take());
  }
  Reset();
}

std::vector<std::string> Optimizer::StateNames(const proto::Optimizer& job) {
  switch (job.kind_case()) {
    case proto::Optimizer::kSgd:
      if (job.sgd().momentum() != 0) return {"velocity"};
      return {};
    case proto::Optimizer::kAdagrad:
      return {"accumulator"};
    case proto::Optimizer::kAdam:
    case proto::Optimizer::kAdamw:
      return {"mean", "square"};
    case proto::Optimizer::kAveraging:
    case proto::Optimizer::KIND_NOT_SET:  // Plain SGD.
      return {};
  }
  return {};
}

void Optimizer::Reset() {
  const float first =
      job_.has_adagrad()
          ? static_cast<float>(job_.adagrad().initial_accumulator())
          : 0.0f;
  for (std::vector<ChunkRef>& array : state_) {
    for (int i = 0; i < grid_.count(); ++i) {
      MakeUnique(&array[i]);
      std::fill_n(array[i].mutable_data(), grid_.size(i), first);
    }
  }
}

void Optimizer::MakeUnique(ChunkRef* chunk) {
  if (!chunk->IsUnique()) pool_.Replace(chunk);
}

void Optimizer::Restore(const std::vector<std::vector<float>>& arrays) {
  for (size_t a = 0; a < state_.size(); ++a) {
    for (int i = 0; i < grid_.count(); ++i) {
      MakeUnique(&state_[a][i]);
      std::copy_n(arrays[a].data() + grid_.begin(i), grid_.size(i),
                  state_[a][i].mutable_data());
    }
  }
}

void Optimizer::Apply(const Update& update, int chunk, const float* from,
                      float* to) {
  for (std::vector<ChunkRef>& array : state_) {
    if (array[chunk].IsUnique()) continue;
    const ChunkRef held = pool_.Replace(&array[chunk]);
    std::copy_n(held.data(), grid_.size(chunk), array[chunk].mutable_data());
  }
  const int64_t chunk_begin = grid_.begin(chunk);
  const int64_t chunk_end = chunk_begin + grid_.size(chunk);
  for (const Run& run : runs_) {
    const int64_t begin = std::max(run.begin, chunk_begin);
    const int64_t end = std::min(run.end, chunk_end);
    if (begin >= end) continue;
    const int64_t offset = begin - chunk_begin;
    ApplyPart(update, {begin, end - begin, run.factors, run.moving_average,
                       from + offset, to + offset, chunk, offset});
  }
}

void Optimizer::AddUp(const Update& update, float* sum) {
  for (const Run& run : runs_) {
    Part part = {};
    part.begin = run.begin;
    part.moving_average = run.moving_average;
    kernels::WeightedSum(GradientsOf(update, part), run.end - run.begin,
                         sum + run.begin);
  }
}

void Optimizer::ApplyPart(const Update& update, const Part& part) {
  if (part.moving_average.has_value()) {
    return kernels::MovingAverageUpdate(
        static_cast<float>(*part.moving_average), GradientsOf(update, part),
        part.size, part.from, part.to);
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
  options.learning_rate =
      static_cast<float>(update.learning_rate * part.factors.rate);
  options.momentum = static_cast<float>(sgd.momentum());
  options.nesterov = sgd.nesterov();
  options.weight_decay =
      static_cast<float>(sgd.weight_decay() * part.factors.decay);
  kernels::SgdUpdate(options, GradientsOf(update, part), part.size, part.from,
                     state_.empty() ? nullptr : State(0, part), part.to);
}

void Optimizer::ApplyAdagrad(const Update& update, const Part& part) {
  kernels::AdagradOptions options;
  options.learning_rate =
      static_cast<float>(update.learning_rate * part.factors.rate);
  options.weight_decay =
      static_cast<float>(job_.adagrad().weight_decay() * part.factors.decay);
  kernels::AdagradUpdate(options, GradientsOf(update, part), part.size,
                         part.from, State(0, part), part.to);
}

void Optimizer::ApplyAdam(const Update& update, const Part& part) {
  const auto options = [&](const auto& adam) {
    return kernels::AdamOptions{
        .learning_rate = update.learning_rate * part.factors.rate,
        .beta1 = adam.beta1(),
        .beta2 = adam.beta2(),
        .epsilon = adam.epsilon(),
        .weight_decay = adam.weight_decay() * part.factors.decay,
        .decoupled = job_.has_adamw(),
        .update = update.version.value()};
  };
  kernels::AdamUpdate(
      job_.has_adamw() ? options(job_.adamw()) : options(job_.adam()),
      GradientsOf(update, part), part.size, part.from, State(0, part),
      State(1, part), part.to);
}

float* Optimizer::State(int array, const Part& part) {
  return state_[array][part.chunk].mutable_data() + part.offset;
}

kernels::WeightedGradients Optimizer::GradientsOf(const Update& update,
                                                  const Part& part) {
  shifted_.clear();
  for (const float* gradient : update.gradients) {
    shifted_.push_back(gradient + part.begin);
  }
  return {shifted_,
          part.moving_average.has_value() ? update.shares : update.factors};
}

}  // namespace sluice
