#include "cli/report/job/simulate_report.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "cli/launch/progress.h"
#include "common/job/group.h"
#include "common/job/job_counts.h"
#include "common/telemetry/json_text.h"
#include "nlohmann/json.hpp"
#include "sim/theory/job_theory.h"
#include "sim/theory/pipeline_time.h"

namespace sluice {
namespace {

// K changes during the run.
bool HasSchedule(const ResolvedJob& job) {
  const proto::KSchedule& schedule = job.job.sync().k_schedule();
  return schedule.has_by_version() || schedule.has_adaptive();
}

nlohmann::ordered_json Measured(const SimulatedRun::Measured& measured) {
  nlohmann::ordered_json json = {
      {"seconds", measured.seconds},
      {"version", measured.evaluation.version.value()},
      {"test_loss", measured.evaluation.loss},
      {"test_accuracy", nullptr}};
  if (measured.evaluation.accuracy.has_value()) {
    json["test_accuracy"] = *measured.evaluation.accuracy;
  }
  return json;
}

// The fields that only a simulation with gradients has.
void AddRun(const SimulatedRun& run, const SimulationReport& report,
            nlohmann::ordered_json* json) {
  const JobState& state = run.state;
  (*json)["virtual_seconds"] = absl::ToDoubleSeconds(state.running);
  (*json)["version"] = state.version.value();
  (*json)["samples"] = state.counters.samples_applied;
  (*json)["loss"] = state.loss;
  (*json)["gradients_computed"] = run.computed;
  (*json)["evaluations"] = nlohmann::ordered_json::array();
  for (const SimulatedRun::Measured& measured : run.evaluations) {
    (*json)["evaluations"].push_back(Measured(measured));
  }
  (*json)["test_loss"] = (*json)["test_accuracy"] = nullptr;
  (*json)["weights_sha256"] = nullptr;
  if (state.final_evaluation.has_value()) {
    const Evaluation& final = *state.final_evaluation;
    (*json)["test_loss"] = final.loss;
    if (final.accuracy.has_value()) (*json)["test_accuracy"] = *final.accuracy;
    (*json)["weights_sha256"] = final.weights_sha256;
  }
  (*json)["time_to_target"] = nullptr;
  if (run.reached.has_value()) {
    (*json)["time_to_target"] = run.reached->seconds;
  }
  (*json)["run_dir"] = report.run_dir;
  (*json)["pictures"] = report.pictures;
}

// Share of the time in which each member of a group does not compute.
std::vector<double> MemberIdle(const TaskUse& task) {
  std::vector<double> idle;
  for (const double seconds : task.computing) {
    // Rounding may find more than all of it.
    idle.push_back(task.period > 0 ? std::max(0.0, 1 - seconds / task.period)
                                   : 0);
  }
  return idle;
}

// Null if there was nothing to measure it on.
nlohmann::ordered_json IfAny(double value, int64_t count) {
  return count > 0 ? nlohmann::ordered_json(value) : nullptr;
}

void PrintJson(const ResolvedJob& job, const SimulationReport& report,
               std::ostream& out) {
  const Timing& timing = report.timing;
  const double wall_seconds = absl::ToDoubleSeconds(report.wall);
  nlohmann::ordered_json json = {
      {"name", job.job.name()},
      {"policy", proto::Policy_Name(job.job.sync().policy())},
      {"k", MostGradientsPerUpdate(job.job.sync())},
      {"workers", job.job.cluster().workers()},
      {"shards", job.job.cluster().shards()},
      {"updates", timing.updates},
      {"mean_update_time", IfAny(timing.mean_update_time, timing.updates)},
      {"mean_update_time_half_width_99", timing.half_width},
      {"updates_per_second",
       IfAny(1 / timing.mean_update_time, timing.updates)},
      {"mean_staleness", IfAny(timing.mean_staleness, timing.updates)},
      {"staleness_histogram", timing.staleness_histogram},
      {"started", timing.started},
      {"wasted", timing.wasted},
      {"wasted_time", timing.wasted_time},
      {"idle", timing.idle},
      {"worker_idle", timing.worker_idle},
      {"scaling_efficiency", timing.scaling_efficiency},
      {"task_seconds", timing.task.seconds},
      {"task_period", timing.task.period},
      {"bubble", timing.task.Bubble()},
      {"member_idle", MemberIdle(timing.task)},
      {"pull_bytes", timing.pull_bytes},
      {"push_bytes", timing.push_bytes},
      {"pull_bytes_per_second", timing.pull_bytes_per_second},
      {"push_bytes_per_second", timing.push_bytes_per_second},
      {"events", timing.events},
      {"wall_seconds", wall_seconds},
      {"events_per_wall_second",
       static_cast<double>(timing.events) / wall_seconds}};
  if (const auto formula = UpdateTimeOf(job); formula.has_value()) {
    json["formula"] = {{"low", formula->low}, {"high", formula->high}};
  }
  if (report.run.has_value()) AddRun(*report.run, report, &json);
  out << JsonText(json, 2) << "\n";
}

std::string FormatRates(const std::vector<double>& rates) {
  return absl::StrJoin(rates, ", ", [](std::string* to, double rate) {
    absl::StrAppendFormat(to, "%.3g", rate / 1e6);
  });
}

// "0.62 0.25 0.09 0.03 0.01 (above: 0.00)": the share of each staleness.
std::string FormatHistogram(const std::vector<int64_t>& histogram) {
  constexpr size_t kShown = 8;
  double all = 0, above = 0;
  for (size_t s = 0; s < histogram.size(); ++s) {
    all += static_cast<double>(histogram[s]);
    if (s >= kShown) above += static_cast<double>(histogram[s]);
  }
  std::string text;
  for (size_t s = 0; s < std::min(kShown, histogram.size()); ++s) {
    absl::StrAppendFormat(&text, "%s%.2f", s == 0 ? "" : " ",
                          static_cast<double>(histogram[s]) / all);
  }
  if (above > 0) absl::StrAppendFormat(&text, " (above: %.2f)", above / all);
  return text;
}

double LeastOf(const std::vector<double>& values) {
  return values.empty() ? 0 : *std::min_element(values.begin(), values.end());
}

double MostOf(const std::vector<double>& values) {
  return values.empty() ? 0 : *std::max_element(values.begin(), values.end());
}

std::string FormatPercents(const std::vector<double>& shares) {
  return absl::StrJoin(shares, ", ", [](std::string* to, double share) {
    absl::StrAppendFormat(to, "%.2f%%", 100 * share);
  });
}

void PrintUpdates(const ResolvedJob& job, const Timing& timing,
                  std::ostream& out) {
  const bool any = timing.updates > 0;
  out << "time per update  ";
  if (any) {
    out << absl::StrFormat("%.6g s", timing.mean_update_time);
    if (std::isfinite(timing.half_width)) {
      out << absl::StrFormat(" +- %.2g s (99%%)", timing.half_width);
    }
    out << absl::StrFormat(", %.6g updates/s\n", 1 / timing.mean_update_time);
  } else {
    out << "no update\n";
  }
  if (const auto formula = UpdateTimeOf(job); formula.has_value()) {
    out << "by the formula   ";
    if (formula->low == formula->high) {
      out << absl::StrFormat("%.6g s", formula->low);
      if (any) {
        out << absl::StrFormat("; measured / formula %.4f",
                               timing.mean_update_time / formula->low);
      }
      out << "\n";
    } else {
      out << absl::StrFormat("between %.6g and %.6g s\n", formula->low,
                             formula->high);
    }
  }
  if (!any) return;
  out << absl::StrFormat("staleness        %.4g on average; from 0 on: %s\n",
                         timing.mean_staleness,
                         FormatHistogram(timing.staleness_histogram));
}

void PrintTimes(const ResolvedJob& job, const Timing& timing,
                std::ostream& out) {
  PrintUpdates(job, timing, out);
  out << absl::StrFormat(
      "wasted           %.2f%% of the tasks, %.2f%% of the compute time\n"
      "workers idle     %.2f%% of the time, one from %.2f%% to %.2f%%\n"
      "scaling          %.4f: a task's mean time, by the time per gradient and "
      "worker\n",
      100 * timing.wasted, 100 * timing.wasted_time, 100 * timing.idle,
      100 * LeastOf(timing.worker_idle), 100 * MostOf(timing.worker_idle),
      timing.scaling_efficiency);
  if (IsGroup(job.job)) {
    out << absl::StrFormat("a task           %.6g s", timing.task.seconds);
    if (SlotsOf(job.job) > 1) {
      out << absl::StrFormat(", and one ends every %.6g s", timing.task.period);
    }
    out << absl::StrFormat(", of which bubble %.2f%%; members idle ",
                           100 * timing.task.Bubble())
        << FormatPercents(MemberIdle(timing.task)) << "\n";
  }
  out << "each shard       pull " << FormatRates(timing.pull_bytes_per_second)
      << " MB/s, push " << FormatRates(timing.push_bytes_per_second)
      << " MB/s\n";
}

void PrintMeasured(const char* what, double seconds,
                   const Evaluation& evaluation, std::ostream& out) {
  out << absl::StrFormat("%-16s %.6g s, version %d, test loss %s", what,
                         seconds, evaluation.version.value(),
                         FormatLoss(evaluation.loss));
  if (evaluation.accuracy.has_value()) {
    out << absl::StrFormat(", test accuracy %.4f", *evaluation.accuracy);
  }
  out << "\n";
}

void PrintRun(const SimulatedRun& run, const SimulationReport& report,
              std::ostream& out) {
  const double seconds = absl::ToDoubleSeconds(run.state.running);
  if (report.target.accuracy.has_value() || report.target.loss.has_value()) {
    if (run.reached.has_value()) {
      PrintMeasured("target reached", run.reached->seconds,
                    run.reached->evaluation, out);
    } else {
      out << "target           not reached\n";
    }
  }
  if (run.state.final_evaluation.has_value()) {
    PrintMeasured("ended", seconds, *run.state.final_evaluation, out);
  } else {
    out << absl::StrFormat("ended            %.6g s, version %d\n", seconds,
                           run.state.version.value());
  }
  out << absl::StrFormat("gradients        %d computed for %d tasks\n",
                         run.computed, report.timing.started);
}

void PrintTable(const ResolvedJob& job, const SimulationReport& report,
                std::ostream& out) {
  const Timing& timing = report.timing;
  out << absl::StrFormat(
      "%s: %s, %s%d gradients an update, %d workers, %d shards, virtual "
      "time\n\n",
      job.job.name(), proto::Policy_Name(job.job.sync().policy()),
      HasSchedule(job) ? "up to " : "", MostGradientsPerUpdate(job.job.sync()),
      job.job.cluster().workers(), job.job.cluster().shards());
  PrintTimes(job, timing, out);
  if (report.run.has_value()) PrintRun(*report.run, report, out);
  const double seconds = absl::ToDoubleSeconds(report.wall);
  out << absl::StrFormat(
      "simulated        %d updates, %d events in %.2f s (%.3g events/s)\n",
      timing.updates, timing.events, seconds,
      static_cast<double>(timing.events) / seconds);
  if (!report.run_dir.empty()) {
    out << "run folder       " << report.run_dir << "\n";
  }
  for (const std::string& path : report.pictures) {
    out << "picture          " << path << ".svg " << path << ".png\n";
  }
}

}  // namespace

void PrintSimulation(const ResolvedJob& job, const SimulationReport& report,
                     bool json, std::ostream& out) {
  if (json) {
    PrintJson(job, report, out);
  } else {
    PrintTable(job, report, out);
  }
}

}  // namespace sluice
