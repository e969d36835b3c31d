#ifndef SLUICE_WORKER_TESTING_FAKES_H_
#define SLUICE_WORKER_TESTING_FAKES_H_

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/clock.h"
#include "common/status_macros.h"
#include "worker/data/data_source.h"
#include "worker/exchange/exchange.h"
#include "worker/model/model.h"

// Stand-ins for what a trainer works with. Not thread-safe: call from one
// thread.
namespace sluice {

// A clock that moves when it is told to.
class FakeClock final : public Clock {
 public:
  absl::Time Now() override { return now_; }
  void Advance(absl::Duration by) { now_ += by; }

 private:
  absl::Time now_ = absl::UnixEpoch();
};

// `size` samples; the input and the target of sample i are i, its label is 0.
class FakeDataSource final : public DataSource {
 public:
  explicit FakeDataSource(int64_t size) : size_(size) {}
  int64_t size() const override { return size_; }
  void Gather(absl::Span<const int64_t> indices, Batch* batch) const override {
    batch->samples = static_cast<int64_t>(indices.size());
    batch->inputs.assign(indices.begin(), indices.end());
    batch->targets = batch->inputs;
    batch->labels.assign(indices.size(), 0);
  }

 private:
  int64_t size_;
};

// Gradient: everywhere the mean of the inputs, plus the weight at the same
// place. Needs the first half of the weights, and then the second; becomes
// final in two halves, the second one first. Loss: the mean of the inputs.
class FakeModel final : public Model {
 public:
  absl::StatusOr<Result> ComputeGradient(const Batch& batch,
                                         absl::Span<const float> weights,
                                         absl::Span<float> gradient,
                                         const CancelToken& cancel,
                                         const Observer& observer) override {
    const int64_t size = static_cast<int64_t>(gradient.size());
    const int64_t half = size / 2;
    for (const int64_t end : {half, size}) {
      if (observer.await == nullptr) continue;
      SLUICE_RETURN_IF_ERROR(observer.await(end).status());
      if (end == half && on_half != nullptr) on_half();
    }
    if (on_forward != nullptr) on_forward();
    if (cancel.cancelled()) return absl::AbortedError("cancelled");
    observer.on_backward();
    const float mean = Mean(batch);
    for (int64_t i = size - 1; i >= 0; --i) {
      gradient[i] = mean + weights[i];
      if (i == half) observer.on_ready(half);
    }
    if (on_backward != nullptr) on_backward();
    if (cancel.cancelled()) return absl::AbortedError("cancelled");
    observer.on_ready(0);
    return Result{.loss = mean, .correct = 0, .overflows = overflows};
  }
  absl::StatusOr<Result> Evaluate(const Batch& batch,
                                  absl::Span<const float> weights) override {
    evaluated.push_back(batch.samples);
    return Result{.loss = Mean(batch), .correct = batch.samples / 2};
  }

  // Called when half of the weights are there, in the forward pass and in the
  // middle of the backward pass.
  std::function<void()> on_half;
  std::function<void()> on_forward;
  std::function<void()> on_backward;
  int overflows = 0;               // Of each gradient.
  std::vector<int64_t> evaluated;  // Samples of each call of Evaluate.

 private:
  static float Mean(const Batch& batch) {
    float sum = 0;
    for (const float input : batch.inputs) sum += input;
    return sum / static_cast<float>(batch.samples);
  }
};

// Two shards that hold half of `weights` each and remember what was pushed.
class FakeExchange final : public Exchange {
 public:
  void BeginPull(const PullSpec& spec, absl::Span<float> weights) override {
    pulled = spec;
    pulled_into = weights.data();
    ++pulls_under_way;
    asked_ = false;
  }
  absl::StatusOr<int64_t> AwaitPulled(int64_t end,
                                      const CancelToken& cancel) override {
    if (!std::exchange(asked_, true) && on_pull != nullptr) on_pull();
    if (cancel.cancelled()) return absl::AbortedError("cancelled");
    if (!pull_status.ok()) return pull_status;
    awaited.push_back(end);
    const int64_t half = static_cast<int64_t>(weights.size()) / 2;
    if (end > half && breaks > 0) {
      --breaks;
      if (on_break != nullptr) on_break();
      return 0;
    }
    const int64_t there = end > half ? 2 * half : half;
    std::copy_n(weights.begin(), there, pulled_into);
    return there;
  }
  absl::StatusOr<std::vector<Version>> FinishPull(
      const CancelToken& cancel) override {
    --pulls_under_way;
    if (!asked_) {
      SLUICE_RETURN_IF_ERROR(AwaitPulled(weights.size(), cancel).status());
    }
    return std::vector<Version>{pulled->version, pulled->version + 1};
  }
  void AbortPull() override { pulls_under_way = 0; }
  void PullAhead(const PullSpec& spec, absl::Span<float> weights) override {
    pulled_ahead.push_back(spec);
    ahead_into = weights.data();
  }
  void AbortPullAhead() override { ahead_into = nullptr; }
  void BeginPush(const GradientKey& key, uint64_t grant,
                 absl::Span<const float> gradient) override {
    push_key = key;
    push_grant = grant;
    gradient_ = gradient;
    offers.clear();
  }
  void PushFrom(int64_t from) override { offers.push_back(from); }
  absl::Status FinishPush(const CancelToken& cancel) override {
    if (cancel.cancelled()) return absl::AbortedError("cancelled");
    if (push_status.ok()) pushed.assign(gradient_.begin(), gradient_.end());
    return push_status;
  }
  void AbortPush() override { ++aborted_pushes; }
  void Wake() override {}
  std::vector<Travel> pull_travels() const override { return travels; }
  std::vector<Travel> push_travels() const override { return travels; }

  std::vector<float> weights;
  std::vector<Travel> travels;  // What it says of every pull and push.
  absl::Status pull_status;
  absl::Status push_status;
  std::function<void()> on_pull;

  std::optional<PullSpec> pulled;
  float* pulled_into = nullptr;
  std::vector<int64_t> awaited;  // The ends.
  int pulls_under_way = 0;
  int breaks = 0;  // Times that the second shard begins anew.
  std::function<void()> on_break;
  std::vector<PullSpec> pulled_ahead;
  const float* ahead_into = nullptr;
  std::optional<GradientKey> push_key;
  uint64_t push_grant = 0;
  std::vector<int64_t> offers;
  std::vector<float> pushed;  // The last gradient that was staged.
  int aborted_pushes = 0;

 private:
  bool asked_ = false;
  absl::Span<const float> gradient_;
};

}  // namespace sluice

#endif  // SLUICE_WORKER_TESTING_FAKES_H_
