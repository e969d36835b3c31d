// The computation of one worker without daemons, for comparison with PyTorch.
// It prints one line of JSON that describes it, and then executes each input
// line
//
//   gradient SECONDS   computes the gradient of the same mini-batch repeatedly
//   train SECONDS      reads mini-batch after mini-batch and trains with SGD
//
// for that many seconds. It answers with two numbers: samples per CPU second
// and per wall second.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <fstream>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "common/clock.h"
#include "common/job/initial_weights.h"
#include "common/job/resolved_job.h"
#include "common/random.h"
#include "common/status_macros.h"
#include "kernels/accelerator.h"
#include "kernels/numerics.h"
#include "kernels/optimizer_kernels.h"
#include "nlohmann/json.hpp"
#include "worker/compute/job_sampling.h"
#include "worker/compute/native_gradient.h"
#include "worker/data/data_source.h"
#include "worker/model/make_device.h"
#include "worker/model/model.h"

namespace sluice::bench {
namespace {

// The multiply-adds of forward for one sample, which count as two operations
// each. A weight of a convolution, or of a layer on a sequence, is used once
// for every pixel or position of the output. In attention a position takes part
// in two products with all positions up to it.
double ForwardOperations(const ModelPlan& plan, const LayerPlan& layer) {
  const std::vector<int64_t>& output = layer.output_shape;
  if (layer.layer.has_attention()) {
    return 2.0 * output[0] * (output[0] + 1) * output[1];
  }
  double operations = 2.0 * plan.tensors[layer.weight].size;
  if (layer.layer.has_conv2d()) return operations * output[1] * output[2];
  return output.size() == 2 ? operations * output[0] : operations;
}

// Backward makes two products of a layer's size, but only one if no earlier
// layer has parameters.
double OperationsPerSample(const ModelPlan& plan) {
  double operations = 0;
  bool first = true;
  const auto add = [&](const LayerPlan& layer) {
    const proto::Layer& kind = layer.layer;
    if (kind.has_dense() || kind.has_conv2d() || kind.has_attention() ||
        kind.has_tied_output()) {
      operations += ForwardOperations(plan, layer) * (first ? 2 : 3);
    }
    first = first && layer.weight < 0;
  };
  for (const LayerPlan& layer : plan.layers) {
    add(layer);
    for (const LayerPlan& inner : layer.body) add(inner);
    for (const LayerPlan& inner : layer.projection) add(inner);
  }
  return operations;
}

double CpuSeconds() {
  return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
}

// Rate of a square matrix product: one that stays in a processor's cache, or
// one that is large enough for a GPU and for the cast of the weights to 16 bits
// to be a small part of it.
absl::StatusOr<double> PeakOperationsPerSecond(kernels::Device* device) {
  kernels::Accelerator* const gpu = device->accelerator();
  const int64_t side = gpu == nullptr ? 512 : 8192;
  SLUICE_ASSIGN_OR_RETURN(
      auto op, device->Prepare(kernels::DenseShape{side, side, false}, side));
  const std::vector<float> ones(side * side, 1);
  const int64_t bytes = side * side * static_cast<int64_t>(sizeof(float));
  std::unique_ptr<kernels::Buffer> x, w, y;
  for (auto* buffer : {&x, &w, &y}) {
    SLUICE_ASSIGN_OR_RETURN(*buffer, device->Allocate(bytes));
    if (gpu == nullptr) {
      std::memcpy((*buffer)->data(), ones.data(), bytes);
    } else {
      SLUICE_RETURN_IF_ERROR(
          gpu->CopyToDevice(ones.data(), (*buffer)->data(), bytes));
    }
  }
  SLUICE_ASSIGN_OR_RETURN(auto input,
                          device->Prepare(kernels::InputShape{side, 1}, side));
  if (input != nullptr) {
    SLUICE_RETURN_IF_ERROR(input->Run(side, w->floats(), x->data()));
  }
  double fastest = 1e9;
  for (int i = 0; i < 20; ++i) {
    const absl::Time start = Clock::Real()->Now();
    SLUICE_RETURN_IF_ERROR(
        op->Forward(side, x->data(), w->floats(), nullptr, y->data()));
    if (gpu != nullptr) SLUICE_RETURN_IF_ERROR(gpu->Synchronize());
    fastest =
        std::min(fastest, absl::ToDoubleSeconds(Clock::Real()->Now() - start));
  }
  return 2.0 * static_cast<double>(side * side * side) / fastest;
}

template <typename T>
void Write(const std::string& path, const std::vector<T>& values) {
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(values.data()),
             static_cast<std::streamsize>(values.size() * sizeof(T)));
}

class OneWorker {
 public:
  OneWorker(ResolvedJob job, const ModelOptions& options, bool registers)
      : job_(std::move(job)), options_(options), registers_(registers) {}

  absl::Status Prepare();
  // Writes weights, inputs and labels of one mini-batch, and its gradient, into
  // `folder` as plain arrays.
  absl::StatusOr<nlohmann::json> Describe(const std::string& folder);
  // Executes the named work once. Returns the number of samples in a
  // mini-batch.
  absl::StatusOr<int64_t> Gradient();
  absl::StatusOr<int64_t> Train();

 private:
  const ResolvedJob job_;
  const ModelOptions options_;
  const bool registers_;  // Memory with the device, as a worker does.
  std::unique_ptr<kernels::Device> device_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<DataSource> data_;
  std::optional<NativeGradient> task_gradient_;
  Batch batch_;
  std::vector<float> weights_, velocity_, gradient_;
  std::vector<std::unique_ptr<kernels::Registration>> registrations_;
  BatchId next_{0};
};

absl::Status OneWorker::Prepare() {
  SLUICE_ASSIGN_OR_RETURN(device_, MakeDevice(job_.job.worker(), 0));
  SLUICE_ASSIGN_OR_RETURN(model_, Model::Create(job_, JobMicroBatch(job_),
                                                device_.get(), options_));
  SLUICE_ASSIGN_OR_RETURN(
      data_, OpenDataSource(job_.job.data(), Split::kTrain, job_.job.seed()));
  kernels::SetNumericMode();
  device_->EnterThread();
  task_gradient_.emplace(JobNativeGradient(job_), data_.get(), model_.get());
  std::vector<int64_t> samples(job_.job.data().batch_size());
  for (size_t i = 0; i < samples.size(); ++i) samples[i] = i;
  SLUICE_RETURN_IF_ERROR(data_->Gather(samples, &batch_));
  weights_ = job_.layout.InitialWeights(1, {0, job_.layout.size()});
  // No value is 0, because zeros would hide a wrong product.
  const Random random(1, "bench");
  for (size_t i = 0; i < weights_.size(); ++i) {
    weights_[i] += 0.1f * (random.UniformFloat(i) - 0.5f);
  }
  velocity_.resize(weights_.size());
  gradient_.resize(weights_.size());
  if (!registers_) return absl::OkStatus();
  for (std::vector<float>* memory : {&weights_, &gradient_, &batch_.inputs}) {
    registrations_.push_back(model_->Register(absl::MakeSpan(*memory)));
  }
  return absl::OkStatus();
}

absl::StatusOr<nlohmann::json> OneWorker::Describe(const std::string& folder) {
  SLUICE_ASSIGN_OR_RETURN(
      const Model::Result result,
      model_->ComputeGradient(batch_, weights_, absl::MakeSpan(gradient_),
                              CancelToken()));
  SLUICE_ASSIGN_OR_RETURN(const double peak,
                          PeakOperationsPerSecond(device_.get()));
  if (!folder.empty()) {
    Write(folder + "/weights.f32", weights_);
    Write(folder + "/inputs.f32", batch_.inputs);
    Write(folder + "/labels.i32", batch_.labels);
    Write(folder + "/gradient.f32", gradient_);
  }
  nlohmann::json trained = nlohmann::json::array();
  for (const ParameterRange& range : job_.layout.trained()) {
    trained.push_back({range.begin, range.end});
  }
  return nlohmann::json{
      {"device", device_->Description()},
      {"loss", result.loss},
      {"input_shape", job_.model.input_shape},
      {"trained_ranges", trained},
      {"operations_per_sample", OperationsPerSample(job_.model)},
      {"peak_operations_per_second", peak}};
}

absl::StatusOr<int64_t> OneWorker::Gradient() {
  SLUICE_RETURN_IF_ERROR(model_
                             ->ComputeGradient(batch_, weights_,
                                               absl::MakeSpan(gradient_),
                                               CancelToken())
                             .status());
  return batch_.samples;
}

absl::StatusOr<int64_t> OneWorker::Train() {
  WeightsInPlace from(weights_);
  GradientInPlace into(absl::MakeSpan(gradient_));
  TaskProgress unheard;
  SLUICE_ASSIGN_OR_RETURN(const auto computed,
                          task_gradient_->Compute({.first = next_}, from, into,
                                                  CancelToken(), &unheard));
  next_ = next_ + 1;
  const float one = 1;
  const float* const gradient = gradient_.data();
  kernels::SgdUpdate({.learning_rate = 0.01f, .momentum = 0.9f},
                     {.gradients = absl::MakeSpan(&gradient, 1),
                      .factors = absl::MakeSpan(&one, 1)},
                     job_.layout.size(), weights_.data(), velocity_.data(),
                     weights_.data());
  return std::get<Model::Result>(computed).samples;
}

// "CPU WALL": samples per second of `step`, repeated for `seconds`.
template <typename F>
absl::StatusOr<std::string> Rates(double seconds, F step) {
  int64_t samples = 0;
  Clock* const clock = Clock::Real();
  const absl::Time start = clock->Now();
  const double cpu = CpuSeconds();
  absl::Duration took;
  do {
    SLUICE_ASSIGN_OR_RETURN(const int64_t more, step());
    samples += more;
    took = clock->Now() - start;
  } while (took < absl::Seconds(seconds));
  return absl::StrCat(
      static_cast<double>(samples) / (CpuSeconds() - cpu), " ",
      static_cast<double>(samples) / absl::ToDoubleSeconds(took));
}

absl::Status Serve(const ResolvedJob& job, const ModelOptions& options,
                   bool registers, const std::string& folder) {
  OneWorker worker(job, options, registers);
  SLUICE_RETURN_IF_ERROR(worker.Prepare());
  SLUICE_ASSIGN_OR_RETURN(const nlohmann::json about, worker.Describe(folder));
  std::cout << about.dump() << std::endl;
  std::string command;
  double seconds;
  while (std::cin >> command >> seconds) {
    SLUICE_ASSIGN_OR_RETURN(
        const std::string rates,
        command == "train" ? Rates(seconds, [&] { return worker.Train(); })
                           : Rates(seconds, [&] { return worker.Gradient(); }));
    std::cout << rates << std::endl;
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace sluice::bench

int main(int argc, char** argv) {
  CLI::App app("Computes what one worker does.", "one_worker");
  std::string path, folder;
  std::vector<std::string> overrides;
  app.add_option("--job", path, "job file (textproto)")->required();
  app.add_option("--set", overrides, "override a field of the job; repeatable")
      ->allow_extra_args(false);
  app.add_option("--folder", folder, "where to write the arrays");
  bool uncaptured = false;
  app.add_flag("--uncaptured", uncaptured,
               "launch every kernel of a GPU by itself, without CUDA graphs");
  bool unregistered = false;
  app.add_flag("--unregistered", unregistered,
               "copy through pinned memory what the device could read itself");
  CLI11_PARSE(app, argc, argv);
  const auto job = sluice::LoadJob(path, overrides);
  const absl::Status status =
      job.ok() ? sluice::bench::Serve(*job, {.records = !uncaptured},
                                      !unregistered, folder)
               : job.status();
  if (!status.ok()) {
    std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
  }
  return status.ok() ? 0 : 1;
}
