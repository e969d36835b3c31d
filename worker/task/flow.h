#ifndef SLUICE_WORKER_TASK_FLOW_H_
#define SLUICE_WORKER_TASK_FLOW_H_

#include <cstdint>
#include <variant>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

// What a computation is handed: the weights it reads, and where its gradient
// goes. Weights may still be on their way when it begins, and the gradient
// leaves while it is being made; so pull, compute and push overlap, and each
// calls only what comes after it or what it was given:
//
//   for each layer, first to last:    weights.WaitUntil(its parameters' end)
//                                     read them
//   for each layer, last to first:    write its part of the gradient
//                                     gradient.FinalFrom(its parameters' begin)
namespace sluice {

// The pull of the weights began anew and may bring another version. Whatever
// was computed from them is void: begin again with the first WaitUntil.
struct Restarted {
  bool operator==(const Restarted&) const { return true; }
};

// What was asked for, or that the weights it needs come anew.
template <typename T>
using OrRestarted = std::variant<T, Restarted>;

template <typename T>
bool IsRestarted(const OrRestarted<T>& outcome) {
  return std::holds_alternative<Restarted>(outcome);
}

// The flat vector of weights, which fills from its first float on.
//
// Not thread-safe: call from the compute thread.
class WeightSource {
 public:
  virtual ~WeightSource() = default;

  // All of them. What WaitUntil has counted may be read and stays as it is,
  // until a later WaitUntil says Restarted.
  virtual absl::Span<const float> values() const = 0;
  // Waits until the floats before `end` are there; returns how many are, from
  // the first on: `end` or more. Its errors end the computation.
  virtual absl::StatusOr<OrRestarted<int64_t>> WaitUntil(int64_t end) = 0;
};

// Where a gradient, a flat vector as well, is written from its last float to
// its first.
//
// Not thread-safe: call from the compute thread.
class GradientSink {
 public:
  virtual ~GradientSink() = default;

  // All of it, to be written.
  virtual absl::Span<float> values() = 0;
  // Everything from float `from` on is written, for good. `from` does not grow
  // from call to call and ends at 0. Its errors end the computation.
  virtual absl::Status FinalFrom(int64_t from) = 0;
};

// Weights that are all there.
class WeightsInPlace final : public WeightSource {
 public:
  explicit WeightsInPlace(absl::Span<const float> values) : values_(values) {}

  absl::Span<const float> values() const override { return values_; }
  absl::StatusOr<OrRestarted<int64_t>> WaitUntil(int64_t end) override {
    return static_cast<int64_t>(values_.size());
  }

 private:
  const absl::Span<const float> values_;
};

// A gradient that nobody takes before all of it is there.
class GradientInPlace final : public GradientSink {
 public:
  explicit GradientInPlace(absl::Span<float> values) : values_(values) {}

  absl::Span<float> values() override { return values_; }
  absl::Status FinalFrom(int64_t from) override { return absl::OkStatus(); }

 private:
  const absl::Span<float> values_;
};

}  // namespace sluice

#endif  // SLUICE_WORKER_TASK_FLOW_H_
