// Delays have no defaults: a distribution whose mean nobody gave is a mistake.
// So each number must be set before it is looked at, and both are said with the
// field's path: "delays.compute.pareto.shape: must be above 1 ..., is 0.5" (its
// mean would be infinite).
#include <string>

#include "absl/strings/str_cat.h"
#include "common/job/job_checker.h"

namespace sluice {
namespace {

constexpr double kMostMs = 1e9;  // Eleven days.

// Checks that each number of a delay is set and within its bounds.
class Fields {
 public:
  Fields(std::string prefix, Checker* check)
      : prefix_(std::move(prefix)), check_(*check) {}

  void Between(const char* field, bool set, double value, double least,
               double most) {
    if (Set(field, set)) check_.Between(Path(field), value, least, most);
  }
  void AboveZero(const char* field, bool set, double value, double most) {
    if (Set(field, set)) check_.AboveZero(Path(field), value, most);
  }
  bool Set(const char* field, bool set) {
    check_.Require(set, Path(field), "must be set");
    return set;
  }
  std::string Path(const char* field) const {
    return absl::StrCat(prefix_, ".", field);
  }

 private:
  const std::string prefix_;
  Checker& check_;
};

void CheckDelay(const std::string& prefix, const proto::Delay& delay,
                Checker* check) {
  const auto fields = [&](const char* kind) {
    return Fields(absl::StrCat(prefix, ".", kind), check);
  };
  switch (delay.kind_case()) {
    case proto::Delay::kConstant: {
      const auto& d = delay.constant();
      fields("constant").Between("ms", d.has_ms(), d.ms(), 0, kMostMs);
      break;
    }
    case proto::Delay::kExponential: {
      const auto& d = delay.exponential();
      fields("exponential")
          .Between("mean_ms", d.has_mean_ms(), d.mean_ms(), 0, kMostMs);
      break;
    }
    case proto::Delay::kShiftedExponential: {
      const auto& d = delay.shifted_exponential();
      Fields f = fields("shifted_exponential");
      f.Between("shift_ms", d.has_shift_ms(), d.shift_ms(), 0, kMostMs);
      f.Between("mean_ms", d.has_mean_ms(), d.mean_ms(), 0, kMostMs);
      break;
    }
    case proto::Delay::kPareto: {
      const auto& d = delay.pareto();
      Fields f = fields("pareto");
      f.AboveZero("minimum_ms", d.has_minimum_ms(), d.minimum_ms(), kMostMs);
      if (f.Set("shape", d.has_shape())) {
        check->Require(
            d.shape() > 1 && d.shape() <= 1000, f.Path("shape"),
            absl::StrCat("must be above 1 and at most 1000, is ", d.shape()));
      }
      break;
    }
    case proto::Delay::kLogNormal: {
      const auto& d = delay.log_normal();
      Fields f = fields("log_normal");
      f.AboveZero("median_ms", d.has_median_ms(), d.median_ms(), kMostMs);
      f.Between("sigma", d.has_sigma(), d.sigma(), 0, 10);
      break;
    }
    case proto::Delay::kTwoSpeed: {
      const auto& d = delay.two_speed();
      Fields f = fields("two_speed");
      f.Between("ms", d.has_ms(), d.ms(), 0, kMostMs);
      f.Between("slow_share", d.has_slow_share(), d.slow_share(), 0, 1);
      f.AboveZero("slow_factor", d.has_slow_factor(), d.slow_factor(), 1e6);
      break;
    }
    case proto::Delay::kTrace:
      fields("trace").Set("path", !delay.trace().path().empty());
      break;
    case proto::Delay::KIND_NOT_SET:
      check->Add(prefix,
                 "must set one of constant, exponential, shifted_exponential, "
                 "pareto, log_normal, two_speed, trace");
      break;
  }
}

}  // namespace

void CheckDelays(const proto::Delays& delays, Checker* check) {
  if (delays.has_compute()) {
    CheckDelay("delays.compute", delays.compute(), check);
  }
  if (delays.has_latency()) {
    CheckDelay("delays.latency", delays.latency(), check);
  }
  for (int i = 0; i < delays.worker_factor_size(); ++i) {
    check->AboveZero(absl::StrCat("delays.worker_factor[", i, "]"),
                     delays.worker_factor(i), 1e6);
  }
  if (delays.has_worker_bandwidth()) {
    check->AboveZero("delays.worker_bandwidth", delays.worker_bandwidth(),
                     1e15);
  }
  if (delays.has_shard_bandwidth()) {
    check->AboveZero("delays.shard_bandwidth", delays.shard_bandwidth(), 1e15);
  }
  for (int i = 0; i < delays.stage_size(); ++i) {
    const proto::StageTime& stage = delays.stage(i);
    Fields f(absl::StrCat("delays.stage[", i, "]"), check);
    f.AboveZero("forward", stage.has_forward(), stage.forward(), kMostMs);
    f.AboveZero("backward", stage.has_backward(), stage.backward(), kMostMs);
  }
}

}  // namespace sluice
