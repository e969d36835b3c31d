#ifndef SLUICE_WORKER_COMPUTE_VERSION_MEASURE_H_
#define SLUICE_WORKER_COMPUTE_VERSION_MEASURE_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/ids.h"
#include "common/telemetry/logged_values.h"
#include "worker/task/cancel_token.h"

namespace sluice {

struct Measurement {
  int64_t samples = 0;  // 0: nothing was measured.
  double loss = 0;      // Mean over the samples.
  // Share of labels, or of what the user's program counts; none of a
  // regression.
  std::optional<double> accuracy;
  // Of a model process; or in how many places of damaged samples others stood,
  // "damaged_samples", if in any.
  LoggedValues logged;
};

// What measures a version on the test split. It owns the memory in which the
// weights lie, so that they can be where it computes:
//
//   NativeMeasure    the job's layers, in this process
//   StagedMeasure    the same, of one stage after the other
//   ExternalMeasure  a process of the user's, in memory that both share
//   NoMeasure        nothing: versions are only pulled
//
// Wake and Abandon may be called from any thread.
//
// Not thread-safe: call from the compute thread.
class VersionMeasure {
 public:
  virtual ~VersionMeasure() = default;

  // Into how many parts it divides the flat vector, of which it holds one at a
  // time; 1: it holds all of it.
  virtual int parts() const { return 1; }
  // Memory for part `part` of the flat vector, which may be another's as well.
  // The same in each call, with anything in it.
  virtual absl::Span<float> Weights(int part) = 0;
  // Brings a part of the version that is measured into Weights(part).
  using Load = std::function<absl::Status(int part)>;
  // Measures `version`, of which the last part that was asked for is there, or
  // the only one. Blocks. kAborted: `cancel` was set. Else as `load`.
  virtual absl::StatusOr<Measurement> Measure(Version version, const Load& load,
                                              const CancelToken& cancel) = 0;

  // As TaskGradient::OwnInput: it must be that of the workers.
  virtual std::string OwnInput() const { return ""; }

  // Makes a waiting Measure look at its cancel token. From any thread.
  virtual void Wake() {}
  // Nothing more will be measured: a Measure that is under way ends within a
  // few seconds. From any thread.
  virtual void Abandon() {}
  // As TaskGradient's.
  virtual void LetEnd() {}
  // Whether nothing more can be measured with it, but with another one.
  virtual bool broken() const { return false; }
};

// Of a job without a test split.
//
// Not thread-safe: call from the compute thread.
class NoMeasure final : public VersionMeasure {
 public:
  explicit NoMeasure(int64_t parameters) : weights_(parameters) {}

  absl::Span<float> Weights(int part) override {
    return absl::MakeSpan(weights_);
  }
  absl::StatusOr<Measurement> Measure(Version version, const Load& load,
                                      const CancelToken& cancel) override {
    return Measurement();
  }

 private:
  std::vector<float> weights_;
};

}  // namespace sluice

#endif  // SLUICE_WORKER_COMPUTE_VERSION_MEASURE_H_
