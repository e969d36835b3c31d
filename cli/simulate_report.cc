#include "cli/simulate_report.h"

#include <optional>
#include <string>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "nlohmann/json.hpp"
#include "ps_server/coordinator/coordinator_options_from_job.h"
#include "sim/theory.h"

namespace sluice {
namespace {

// Seconds per update by the formulas; none where the job leaves their ground:
// a network, workers of different speed, bounds on staleness, local steps.
std::optional<UpdateTime> Formula(const ResolvedJob& job) {
  const proto::Delays& delays = job.job.delays();
  const SyncOptions sync =
      CoordinatorOptionsFromJob(job, /*grant_secret=*/0).sync;
  const int workers = job.job.cluster().workers();
  if (delays.has_latency() || delays.has_worker_bandwidth() ||
      delays.has_shard_bandwidth() || delays.worker_factor_size() > 0 ||
      sync.staleness.has_value() || sync.local_steps > 1 ||
      (sync.policy == PolicyKind::kSync &&
       sync.gradients_per_update != workers)) {
    return std::nullopt;
  }
  const auto shifted = [&](double shift_ms, double mean_ms) {
    return ShiftedExponentialUpdateTime(sync.policy, workers, sync.k,
                                        shift_ms / 1e3, mean_ms / 1e3);
  };
  const proto::Delay& delay = delays.compute();
  switch (delay.kind_case()) {
    case proto::Delay::kExponential:
      return shifted(0, delay.exponential().mean_ms());
    case proto::Delay::kShiftedExponential:
      return shifted(delay.shifted_exponential().shift_ms(),
                     delay.shifted_exponential().mean_ms());
    case proto::Delay::kConstant: {
      const double seconds = ConstantUpdateTime(sync.policy, workers, sync.k,
                                                delay.constant().ms() / 1e3);
      return UpdateTime{seconds, seconds};
    }
    default:
      return std::nullopt;
  }
}

void PrintJson(const ResolvedJob& job, const Timing& timing,
               absl::Duration wall, std::ostream& out) {
  const double wall_seconds = absl::ToDoubleSeconds(wall);
  nlohmann::ordered_json json = {
      {"name", job.job.name()},
      {"policy", proto::Policy_Name(job.job.sync().policy())},
      {"k", MostGradientsPerUpdate(job.job.sync())},
      {"workers", job.job.cluster().workers()},
      {"shards", job.job.cluster().shards()},
      {"updates", timing.updates},
      {"mean_update_time", timing.mean_update_time},
      {"mean_update_time_half_width_99", timing.half_width},
      {"updates_per_second", 1 / timing.mean_update_time},
      {"mean_staleness", timing.mean_staleness},
      {"staleness_histogram", timing.staleness_histogram},
      {"wasted", timing.wasted},
      {"wasted_time", timing.wasted_time},
      {"idle", timing.idle},
      {"pull_bytes_per_second", timing.pull_bytes_per_second},
      {"push_bytes_per_second", timing.push_bytes_per_second},
      {"events", timing.events},
      {"wall_seconds", wall_seconds},
      {"events_per_wall_second",
       static_cast<double>(timing.events) / wall_seconds}};
  if (const auto formula = Formula(job); formula.has_value()) {
    json["formula"] = {{"low", formula->low}, {"high", formula->high}};
  }
  out << json.dump(2) << "\n";
}

std::string FormatRates(const std::vector<double>& rates) {
  return absl::StrJoin(rates, ", ", [](std::string* to, double rate) {
    absl::StrAppendFormat(to, "%.3g", rate / 1e6);
  });
}

void PrintTable(const ResolvedJob& job, const Timing& timing,
                absl::Duration wall, std::ostream& out) {
  out << absl::StrFormat(
      "%s: %s, %d gradients an update, %d workers, %d shards, virtual time\n\n",
      job.job.name(), proto::Policy_Name(job.job.sync().policy()),
      MostGradientsPerUpdate(job.job.sync()), job.job.cluster().workers(),
      job.job.cluster().shards());
  out << absl::StrFormat(
      "time per update  %.6g s +- %.2g s (99%%), %.6g updates/s\n",
      timing.mean_update_time, timing.half_width, 1 / timing.mean_update_time);
  if (const auto formula = Formula(job); formula.has_value()) {
    out << "by the formula   ";
    if (formula->low == formula->high) {
      out << absl::StrFormat("%.6g s; measured / formula %.4f\n", formula->low,
                             timing.mean_update_time / formula->low);
    } else {
      out << absl::StrFormat("between %.6g and %.6g s\n", formula->low,
                             formula->high);
    }
  }
  out << absl::StrFormat(
      "staleness        %.4g on average\n"
      "wasted           %.2f%% of the tasks, %.2f%% of the compute time\n"
      "workers idle     %.2f%% of the time\n",
      timing.mean_staleness, 100 * timing.wasted, 100 * timing.wasted_time,
      100 * timing.idle);
  out << "each shard       pull " << FormatRates(timing.pull_bytes_per_second)
      << " MB/s, push " << FormatRates(timing.push_bytes_per_second)
      << " MB/s\n";
  const double seconds = absl::ToDoubleSeconds(wall);
  out << absl::StrFormat(
      "simulated        %d updates, %d events in %.2f s (%.3g events/s)\n",
      timing.updates, timing.events, seconds,
      static_cast<double>(timing.events) / seconds);
}

}  // namespace

void PrintTiming(const ResolvedJob& job, const Timing& timing,
                 absl::Duration wall, bool json, std::ostream& out) {
  if (json) {
    PrintJson(job, timing, wall, out);
  } else {
    PrintTable(job, timing, wall, out);
  }
}

}  // namespace sluice
