// Where a gradient goes on its way out. Every stage is a GradientSink that
// hands on what is final to the next, so that the push of a layer's gradient
// begins while the layers before it are computed, however many mini-batches and
// parts it is the sum of:
//
//   layers -> Term (part)  -> Term (step)  -> MeanOfStatistics -> GradientArray
//             share * g_ij    + G_i           statistics / count   to the host
//
// A stage that has nothing to do is left out: one mini-batch in one part goes
// from the layers straight to the GradientArray. All parts but the last of a
// step, and all steps but the last, end in a GradientInPlace, which tells
// nobody: their sum is not final yet.
#include "worker/model/model.h"

#include <deque>
#include <utility>

#include "common/status_macros.h"
#include "worker/model/clip_norm.h"

namespace sluice {
void DeviceModel::Result::Add(const Result& more) {
  if (samples == 0) {
    *this = more;
    return;
  }
  const auto loss_of = [](const Result& of) {
    return of.loss * static_cast<double>(of.samples);
  };
  const double sum = loss_of(*this) + loss_of(more);
  samples += more.samples;
  loss = sum / static_cast<double>(samples);
  correct += more.correct;
  overflows += more.overflows;
}

// A gradient by itself, in `scratch`, of which a sum gets `share` times what is
// final: added to it, or in place of it if this is the first term. What the sum
// has got is final there.
class Model::Term final : public GradientSink {
 public:
  Term(float* scratch, float share, bool first, kernels::VectorOp* all,
       GradientSink* sum)
      : values_(scratch, sum->values().size()),
        share_(share),
        first_(first),
        all_(*all),
        sum_(*sum),
        final_from_(static_cast<int64_t>(values_.size())) {}

  absl::Span<float> values() override { return values_; }
  absl::Status FinalFrom(int64_t from) override {
    const ParameterRange range = {from, std::exchange(final_from_, from)};
    float* const sum = sum_.values().data();
    SLUICE_RETURN_IF_ERROR(first_
                               ? all_.Scale(range, share_, values_.data(), sum)
                               : all_.Add(range, share_, values_.data(), sum));
    return sum_.FinalFrom(from);
  }

 private:
  const absl::Span<float> values_;
  const float share_;
  const bool first_;
  kernels::VectorOp& all_;
  GradientSink& sum_;
  int64_t final_from_;
};

// The sum over a task's mini-batches: running statistics are their mean.
class Model::MeanOfStatistics final : public GradientSink {
 public:
  MeanOfStatistics(int count, kernels::VectorOp* statistics, GradientSink* sum)
      : share_(1 / static_cast<float>(count)),
        statistics_(*statistics),
        sum_(*sum),
        final_from_(static_cast<int64_t>(sum->values().size())) {}

  absl::Span<float> values() override { return sum_.values(); }
  absl::Status FinalFrom(int64_t from) override {
    float* const sum = sum_.values().data();
    SLUICE_RETURN_IF_ERROR(statistics_.Scale(
        {from, std::exchange(final_from_, from)}, share_, sum, sum));
    return sum_.FinalFrom(from);
  }

 private:
  const float share_;
  kernels::VectorOp& statistics_;
  GradientSink& sum_;
  int64_t final_from_;
};

absl::StatusOr<float*> Model::Scratch::Get() {
  if (buffer_ == nullptr) {
    SLUICE_ASSIGN_OR_RETURN(
        buffer_,
        device_->Allocate(floats_ * static_cast<int64_t>(sizeof(float))));
  }
  return buffer_->floats();
}

absl::StatusOr<std::unique_ptr<Model>> Model::Create(
    const ResolvedJob& job, int max_samples, kernels::Device* device,
    const ModelOptions& options) {
  device->EnterThread();
  SLUICE_ASSIGN_OR_RETURN(
      auto device_model,
      DeviceModel::Create(job, max_samples, device, options));
  return On(device, job.layout, std::move(device_model));
}

absl::StatusOr<std::unique_ptr<Model>> Model::On(
    kernels::Device* device, const ParameterLayout& layout,
    std::unique_ptr<DeviceModel> device_model) {
  device->EnterThread();
  std::unique_ptr<Model> model(
      new Model(device, std::move(device_model), layout.size()));
  SLUICE_RETURN_IF_ERROR(model->Prepare(layout));
  return model;
}

absl::Status Model::Prepare(const ParameterLayout& layout) {
  SLUICE_ASSIGN_OR_RETURN(all_, device_->PrepareVector({{0, floats_}}));
  SLUICE_ASSIGN_OR_RETURN(trained_, device_->PrepareVector(layout.trained()));
  SLUICE_ASSIGN_OR_RETURN(statistics_,
                          device_->PrepareVector(layout.statistics()));
  for (const TensorSpec& tensor : layout.tensors()) {
    if (tensor.is_statistic()) continue;
    const ParameterRange range = {tensor.offset, tensor.offset + tensor.size};
    SLUICE_ASSIGN_OR_RETURN(tensors_.emplace_back(),
                            device_->PrepareVector({range}));
  }
  SLUICE_ASSIGN_OR_RETURN(weights_, WeightsArray::Create(device_, floats_));
  SLUICE_ASSIGN_OR_RETURN(gradient_, GradientArray::Create(device_, floats_));
  return absl::OkStatus();
}

absl::StatusOr<OrRestarted<Model::Result>> Model::ComputeGradient(
    const Steps& steps, WeightSource& weights, GradientSink& gradient,
    const CancelToken& cancel, TaskProgress* progress) {
  SLUICE_CHECK(static_cast<int64_t>(weights.values().size()) == floats_);
  SLUICE_CHECK(gradient.values().size() == weights.values().size());
  SLUICE_CHECK(steps.count >= 1);
  device_->EnterThread();
  SLUICE_RETURN_IF_ERROR(weights_->Begin(&weights, progress));
  SLUICE_RETURN_IF_ERROR(gradient_->Begin(&gradient, progress));
  GradientInPlace partial(gradient_->values());
  MeanOfStatistics whole(steps.count, statistics_.get(), &*gradient_);
  Result total;
  for (int i = 0; i < steps.count; ++i) {
    const bool last = i + 1 == steps.count;
    GradientSink* into = &*gradient_;
    std::optional<Term> term;
    if (steps.count > 1) {
      SLUICE_ASSIGN_OR_RETURN(float* const scratch, of_step_.Get());
      GradientSink* const sum =
          last ? static_cast<GradientSink*>(&whole) : &partial;
      into = &term.emplace(scratch, 1.0f, i == 0, all_.get(), sum);
    }
    SLUICE_ASSIGN_OR_RETURN(const auto computed,
                            ComputeStep(steps, cancel, progress, *into));
    if (IsRestarted(computed)) return Restarted{};
    total.Add(std::get<Result>(computed));
    if (last) break;
    SLUICE_RETURN_IF_ERROR(trained_->Add(
        {0, floats_}, -steps.rate, into->values().data(), weights_->Own()));
  }
  SLUICE_RETURN_IF_ERROR(gradient_->Finish());
  return total;
}

absl::StatusOr<OrRestarted<int64_t>> Model::BeginAhead(
    const Steps& steps, const CancelToken& cancel, TaskProgress* progress,
    std::deque<Part>* begun) {
  while ((begun->empty() || !begun->back().last) &&
         static_cast<int>(begun->size()) < device_model_->passes_at_once()) {
    SLUICE_ASSIGN_OR_RETURN(const Part part, steps.next());
    begun->push_back(part);
    // Else forward begins with the first weights.
    if (weights_->complete()) progress->Enter(Stage::kForward);
    SLUICE_ASSIGN_OR_RETURN(
        const auto begins, device_model_->Begin(*begun->back().batch, *weights_,
                                                cancel, progress));
    if (IsRestarted(begins)) return Restarted{};
  }
  return static_cast<int64_t>(begun->size());
}

absl::StatusOr<OrRestarted<Model::Result>> Model::ComputeStep(
    const Steps& steps, const CancelToken& cancel, TaskProgress* progress,
    GradientSink& into) {
  const bool clips = steps.clip_norm > 0;
  GradientInPlace partial(into.values());
  Result total;
  std::deque<Part> begun;
  for (bool first = true;; first = false) {
    SLUICE_ASSIGN_OR_RETURN(const auto begins,
                            BeginAhead(steps, cancel, progress, &begun));
    if (IsRestarted(begins)) return Restarted{};
    const Part part = begun.front();
    GradientSink* of_part =
        clips || !part.last ? static_cast<GradientSink*>(&partial) : &into;
    std::optional<Term> term;
    if (!first || !part.last) {
      SLUICE_ASSIGN_OR_RETURN(float* const scratch, of_part_.Get());
      of_part = &term.emplace(scratch, part.share, first, all_.get(), of_part);
    }
    SLUICE_ASSIGN_OR_RETURN(
        const auto computed,
        device_model_->ComputeGradient(*part.batch, *weights_, *of_part, cancel,
                                       progress));
    if (IsRestarted(computed)) return Restarted{};
    begun.pop_front();
    total.Add(std::get<Result>(computed));
    if (part.last) break;
  }
  if (!clips) return total;
  SLUICE_RETURN_IF_ERROR(Clip(steps.clip_norm, cancel, into.values().data()));
  SLUICE_RETURN_IF_ERROR(into.FinalFrom(0));
  return total;
}

// Each tensor's squares by themselves, so that a model that is cut into stages
// adds the same numbers in the same order.
absl::Status Model::Clip(double limit, const CancelToken& cancel,
                         float* gradient) {
  std::vector<double> squares;
  for (const auto& tensor : tensors_) {
    SLUICE_ASSIGN_OR_RETURN(squares.emplace_back(),
                            tensor->SumOfSquares(gradient));
  }
  SLUICE_ASSIGN_OR_RETURN(const double all,
                          device_model_->SumOverTensors(squares, cancel));
  return ClipNorm(limit, all, floats_, trained_.get(), gradient);
}

absl::StatusOr<Model::Result> Model::ComputeGradient(
    const Batch& batch, absl::Span<const float> weights,
    absl::Span<float> gradient, const CancelToken& cancel) {
  Steps one;
  one.next = [&] { return Part{&batch}; };
  WeightsInPlace from(weights);
  GradientInPlace into(gradient);
  TaskProgress unheard;
  SLUICE_ASSIGN_OR_RETURN(const auto computed,
                          ComputeGradient(one, from, into, cancel, &unheard));
  return std::get<Result>(computed);  // Nothing restarts in place.
}

std::unique_ptr<kernels::Registration> Model::Register(
    absl::Span<float> memory) {
  kernels::Accelerator* const accelerator = device_->accelerator();
  if (accelerator == nullptr || memory.empty()) return nullptr;
  device_->EnterThread();
  return accelerator->Register(memory.data(),
                               static_cast<int64_t>(memory.size()) *
                                   static_cast<int64_t>(sizeof(float)));
}

absl::StatusOr<Model::Result> Model::Evaluate(
    const std::function<const Batch*()>& next,
    absl::Span<const float> weights) {
  SLUICE_CHECK(static_cast<int64_t>(weights.size()) == floats_);
  device_->EnterThread();
  WeightsInPlace from(weights);
  TaskProgress unheard;
  SLUICE_RETURN_IF_ERROR(weights_->Begin(&from, &unheard));
  SLUICE_RETURN_IF_ERROR(weights_->WaitUntil(floats_).status());
  Result total;
  while (const Batch* batch = next()) {
    SLUICE_ASSIGN_OR_RETURN(
        const Result result,
        device_model_->Evaluate(*batch, weights_->values()));
    total.Add(result);
  }
  return total;
}

absl::StatusOr<Model::Result> Model::Evaluate(const Batch& batch,
                                              absl::Span<const float> weights) {
  const Batch* one = &batch;
  return Evaluate([&] { return std::exchange(one, nullptr); }, weights);
}

}  // namespace sluice
