#ifndef SLUICE_WORKER_TESTING_WATCHED_FLOW_H_
#define SLUICE_WORKER_TESTING_WATCHED_FLOW_H_

#include <cstdint>
#include <functional>
#include <utility>

#include "worker/task/flow.h"

// Weights and gradients of tests that watch how they are waited for and made.
// Not thread-safe: call from one thread.
namespace sluice {

// How a test's weights are waited for, and who hears of its gradient.
struct Watch {
  std::function<void(int64_t from)> on_final = [](int64_t) {};
  // nullptr: all are there.
  std::function<absl::StatusOr<OrRestarted<int64_t>>(int64_t end)> wait =
      nullptr;
};

class WatchedWeights final : public WeightSource {
 public:
  WatchedWeights(absl::Span<const float> values, Watch watch)
      : values_(values), watch_(std::move(watch)) {}

  absl::Span<const float> values() const override { return values_; }
  absl::StatusOr<OrRestarted<int64_t>> WaitUntil(int64_t end) override {
    if (watch_.wait != nullptr) return watch_.wait(end);
    return static_cast<int64_t>(values_.size());
  }

 private:
  const absl::Span<const float> values_;
  const Watch watch_;
};

class WatchedGradient final : public GradientSink {
 public:
  WatchedGradient(absl::Span<float> values, Watch watch)
      : values_(values), watch_(std::move(watch)) {}

  absl::Span<float> values() override { return values_; }
  absl::Status FinalFrom(int64_t from) override {
    watch_.on_final(from);
    return absl::OkStatus();
  }

 private:
  const absl::Span<float> values_;
  const Watch watch_;
};

}  // namespace sluice

#endif  // SLUICE_WORKER_TESTING_WATCHED_FLOW_H_
