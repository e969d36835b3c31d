#include "worker/model/model.h"

#include <utility>

#include "common/status_macros.h"
#include "worker/model/clip_norm.h"

namespace sluice {
namespace {

absl::Status Ignore(ParameterRange) { return absl::OkStatus(); }

void AddTo(Model::Result* total, const Model::Result& result) {
  if (total->samples == 0) {
    *total = result;
    return;
  }
  const auto loss_of = [](const Model::Result& of) {
    return of.loss * static_cast<double>(of.samples);
  };
  const double loss = loss_of(*total) + loss_of(result);
  total->samples += result.samples;
  total->loss = loss / static_cast<double>(total->samples);
  total->correct += result.correct;
  total->overflows += result.overflows;
}

}  // namespace

struct Model::Call {
  const Steps& steps;
  const CancelToken& cancel;
  const Observer& observer;
};

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
  SLUICE_ASSIGN_OR_RETURN(weights_, WeightsArray::Create(device_, floats_));
  SLUICE_ASSIGN_OR_RETURN(gradient_, GradientArray::Create(device_, floats_));
  return absl::OkStatus();
}

absl::StatusOr<Model::Result> Model::ComputeGradient(
    const Steps& steps, absl::Span<const float> weights,
    absl::Span<float> gradient, const CancelToken& cancel,
    const Observer& observer) {
  SLUICE_CHECK(static_cast<int64_t>(weights.size()) == floats_);
  SLUICE_CHECK(gradient.size() == weights.size());
  SLUICE_CHECK(steps.count >= 1);
  device_->EnterThread();
  SLUICE_RETURN_IF_ERROR(
      weights_->Begin(weights, observer.await,
                      [&](bool begin) { observer.on_copy(true, begin); }));
  SLUICE_RETURN_IF_ERROR(
      gradient_->Begin(gradient, observer.on_ready,
                       [&](bool begin) { observer.on_copy(false, begin); }));
  const Call call = {steps, cancel, observer};
  float* const sum = gradient_->on_device();
  const OnFinal send = [this](ParameterRange range) {
    return gradient_->Final(range.begin);
  };
  const OnFinal divide_and_send = [&](ParameterRange range) {
    SLUICE_RETURN_IF_ERROR(statistics_->Scale(
        range, 1 / static_cast<float>(steps.count), sum, sum));
    return send(range);
  };
  Result total;
  for (int i = 0; i < steps.count; ++i) {
    const bool last = i + 1 == steps.count;
    Target target = {sum, send};
    if (steps.count > 1) {
      target.on_final = last ? divide_and_send : Ignore;
      SLUICE_ASSIGN_OR_RETURN(target, TermOf(target, i == 0, 1, &of_step_));
    }
    SLUICE_ASSIGN_OR_RETURN(const Result result, ComputeStep(call, target));
    AddTo(&total, result);
    if (last) break;
    SLUICE_RETURN_IF_ERROR(trained_->Add({0, floats_}, -steps.rate,
                                         target.gradient, weights_->Own()));
  }
  SLUICE_RETURN_IF_ERROR(gradient_->Finish());
  SLUICE_RETURN_IF_ERROR(device_->Synchronize());
  return total;
}

absl::StatusOr<Model::Result> Model::ComputeGradient(
    const Batch& batch, absl::Span<const float> weights,
    absl::Span<float> gradient, const CancelToken& cancel,
    const Observer& observer) {
  Steps one;
  one.next = [&] { return Part{&batch}; };
  return ComputeGradient(one, weights, gradient, cancel, observer);
}

absl::StatusOr<Model::Result> Model::ComputeStep(const Call& call,
                                                 const Target& target) {
  const bool clips = call.steps.clip_norm > 0;
  Result total;
  for (bool first = true;; first = false) {
    const Part part = call.steps.next();
    Target of_part = target;
    if (clips || !part.last) of_part.on_final = Ignore;
    if (!first || !part.last) {
      SLUICE_ASSIGN_OR_RETURN(of_part,
                              TermOf(of_part, first, part.share, &of_part_));
    }
    SLUICE_ASSIGN_OR_RETURN(const Result result,
                            ComputePart(call, *part.batch, of_part));
    AddTo(&total, result);
    if (part.last) break;
  }
  if (!clips) return total;
  SLUICE_RETURN_IF_ERROR(
      ClipNorm(call.steps.clip_norm, floats_, trained_.get(), target.gradient));
  SLUICE_RETURN_IF_ERROR(target.on_final({0, floats_}));
  return total;
}

absl::StatusOr<Model::Result> Model::ComputePart(const Call& call,
                                                 const Batch& batch,
                                                 const Target& target) {
  int64_t final_from = floats_;
  call.observer.on_forward();
  return device_model_->ComputeGradient(
      batch, absl::MakeConstSpan(weights_->on_device(), floats_),
      absl::MakeSpan(target.gradient, floats_), call.cancel,
      {.need = [&](int64_t end) { return weights_->Need(end); },
       .on_final =
           [&](int64_t from) {
             return target.on_final({from, std::exchange(final_from, from)});
           },
       .on_backward = call.observer.on_backward,
       .on_upload = [&](bool begin) { call.observer.on_copy(true, begin); }});
}

absl::StatusOr<Model::Target> Model::TermOf(const Target& sum, bool first,
                                            float share,
                                            ScratchVector* scratch) {
  SLUICE_ASSIGN_OR_RETURN(float* const term, scratch->Get());
  return Target{term, [=, this](ParameterRange range) {
                  SLUICE_RETURN_IF_ERROR(
                      first ? all_->Scale(range, share, term, sum.gradient)
                            : all_->Add(range, share, term, sum.gradient));
                  return sum.on_final(range);
                }};
}

absl::StatusOr<Model::Result> Model::Evaluate(
    const std::function<const Batch*()>& next,
    absl::Span<const float> weights) {
  SLUICE_CHECK(static_cast<int64_t>(weights.size()) == floats_);
  device_->EnterThread();
  SLUICE_RETURN_IF_ERROR(weights_->Begin(weights, nullptr));
  Result total;
  while (const Batch* batch = next()) {
    SLUICE_ASSIGN_OR_RETURN(
        const Result result,
        device_model_->Evaluate(
            *batch, absl::MakeConstSpan(weights_->on_device(), floats_),
            [this](int64_t end) { return weights_->Need(end); }));
    AddTo(&total, result);
  }
  return total;
}

absl::StatusOr<Model::Result> Model::Evaluate(const Batch& batch,
                                              absl::Span<const float> weights) {
  const Batch* one = &batch;
  return Evaluate([&] { return std::exchange(one, nullptr); }, weights);
}

}  // namespace sluice
