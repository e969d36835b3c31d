// Linear regression as a model process: linear_model.py says what it computes,
// to the same bits.

#include <cmath>
#include <variant>
#include <vector>

#include "worker/external/testing/process_end.h"

namespace sluice {
namespace {

namespace protocol = model_protocol;

// The inputs of a sample and its target.
double Sample(int64_t index, std::vector<double>* x) {
  double y = 0;
  for (size_t j = 0; j < x->size(); ++j) {
    (*x)[j] = static_cast<double>(
                  (index * 7 + static_cast<int64_t>(j) * 3) % 11 - 5) /
              8;
    y += static_cast<double>(j + 1) / 2 * (*x)[j];
  }
  return y + 0.25;
}

// How far the model is off at a sample, whose inputs go into `x`.
double ErrorOf(const std::vector<double>& weights, int64_t index,
               std::vector<double>* x) {
  double error = weights.back() - Sample(index, x);
  for (size_t j = 0; j < x->size(); ++j) error += weights[j] * (*x)[j];
  return error;
}

// Adds the samples' losses to `loss`; the mean gradient of the mini-batch.
std::vector<double> BatchGradient(const std::vector<double>& weights,
                                  const int64_t* indices, int64_t samples,
                                  double* loss) {
  const size_t features = weights.size() - 1;
  std::vector<double> gradient(features + 1), x(features);
  for (int64_t i = 0; i < samples; ++i) {
    const double error = ErrorOf(weights, indices[i], &x);
    *loss += error * error / 2;
    for (size_t j = 0; j < features; ++j) gradient[j] += error * x[j];
    gradient[features] += error;
  }
  for (double& g : gradient) g /= static_cast<double>(samples);
  return gradient;
}

// False: it was cancelled.
bool Compute(const protocol::Task& task, ProcessEnd* worker, double* loss) {
  const float* const from = worker->weights(task.weights);
  std::vector<double> weights(from, from + worker->parameters());
  std::vector<double> total(weights.size());
  const int64_t* const sizes = worker->indices();
  const int64_t* indices = sizes + task.batches + task.next_batches;
  *loss = 0;
  for (uint32_t batch = 0; batch < task.batches; ++batch) {
    if (worker->IsCancelled(task.number)) return false;
    const std::vector<double> gradient =
        BatchGradient(weights, indices, sizes[batch], loss);
    indices += sizes[batch];
    for (size_t j = 0; j < weights.size(); ++j) {
      weights[j] -= task.rate * gradient[j];
      total[j] += gradient[j];
    }
  }
  *loss /= static_cast<double>(task.indices);
  float* const to = worker->gradient(task.gradient);
  for (int64_t j = worker->parameters() - 1; j >= 0; --j) {
    to[j] = static_cast<float>(total[j]);
    // The bias is there.
    if (j == worker->parameters() - 1) {
      worker->Say(protocol::Final{.task = task.number, .from = j});
    }
  }
  worker->Say(protocol::Final{.task = task.number, .from = 0});
  return true;
}

void DoTask(const protocol::Task& task, ProcessEnd* worker) {
  double loss;
  if (Compute(task, worker, &loss)) {
    worker->Say(protocol::Result{
        .task = task.number, .samples = task.indices, .loss = loss});
  } else {
    worker->Say(protocol::Cancelled{.task = task.number});
  }
}

void DoEvaluation(const protocol::Evaluate& asked, ProcessEnd* worker) {
  const float* const from = worker->weights(asked.weights);
  const std::vector<double> weights(from, from + worker->parameters());
  std::vector<double> x(weights.size() - 1);
  double loss = 0, near = 0;
  for (int64_t i = 0; i < asked.samples; ++i) {
    if (worker->IsCancelled(asked.number)) {
      return worker->Say(protocol::Cancelled{.task = asked.number});
    }
    const double error = ErrorOf(weights, 1000000 + i, &x);
    loss += error * error / 2;
    near += std::abs(error) < 1 ? 1 : 0;
  }
  const double samples = static_cast<double>(asked.samples);
  worker->Say(protocol::Evaluated{.task = asked.number,
                                  .samples = asked.samples,
                                  .loss = loss / samples,
                                  .accuracy = near / samples});
}

void Serve() {
  ProcessEnd worker;
  worker.Say(protocol::Ready{});
  while (const auto asked = worker.NextAsked()) {
    if (const auto* task = std::get_if<protocol::Task>(&*asked)) {
      DoTask(*task, &worker);
    } else {
      DoEvaluation(std::get<protocol::Evaluate>(*asked), &worker);
    }
  }
}

}  // namespace
}  // namespace sluice

int main() { sluice::Serve(); }
