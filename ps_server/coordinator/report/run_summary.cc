#include "ps_server/coordinator/report/run_summary.h"

#include <google/protobuf/text_format.h>

#include "absl/strings/ascii.h"
#include "common/telemetry/json_text.h"
#include "nlohmann/json.hpp"
#include "ps_server/coordinator/report/job_state_json.h"

namespace sluice {
namespace {

void PutMeasured(const Evaluation& final, nlohmann::ordered_json* summary) {
  if (final.accuracy.has_value()) (*summary)["test_accuracy"] = *final.accuracy;
  (*summary)["test_loss"] = final.loss;
  (*summary)["test_version"] = final.version.value();
  PutLogged("test_logged", final.logged, summary);
}

// Shares, so that they can be compared from run to run.
void PutTime(const WorkerSeconds& time, nlohmann::ordered_json* summary) {
  const double total = time.Total();
  (*summary)["worker_seconds"] = total;
  if (!(total > 0)) return;
  (*summary)["goodput"] = time.applied / total;
  for (const TimeCause& cause : kTimeCauses) {
    (*summary)["worker_time"][cause.name] = time.*cause.seconds / total;
  }
}

}  // namespace

std::string StopText(const proto::Stop& stop) {
  google::protobuf::TextFormat::Printer printer;
  printer.SetSingleLineMode(true);
  std::string text;
  printer.PrintToString(stop, &text);
  return std::string(absl::StripTrailingAsciiWhitespace(text));
}

std::string RunSummary(const proto::Job& job, const JobState& state,
                       const FinishRun& finish,
                       const std::optional<WorkerSeconds>& time) {
  const double seconds = absl::ToDoubleSeconds(state.running);
  nlohmann::ordered_json summary = {
      {"name", job.name()},
      {"test_accuracy", nullptr},
      {"test_loss", nullptr},
      {"test_version", nullptr},
      {"version", state.version.value()},
      {"epochs", state.epoch},
      {"seconds", seconds},
      {"samples_per_second",
       seconds > 0
           ? static_cast<double>(state.counters.samples_applied) / seconds
           : 0},
      {"weights_sha256", nullptr},
      {"mean_staleness", state.mean_staleness},
      {"goodput", nullptr},
      {"worker_seconds", nullptr},
      {"worker_time", nullptr},
      {"checkpoints", nullptr},
      {"generation", state.generation.value()},
      {"updates_lost",
       state.recovery.has_value() ? state.recovery->updates_lost : 0},
      {"policy", proto::Policy_Name(job.sync().policy())},
      {"workers", job.cluster().workers()},
      {"shards", job.cluster().shards()},
      {"reason", finish.reason},
      {"failure", finish.failure},
      {"reached", nullptr},
  };
  if (finish.failure.empty() && !state.stop_requested.has_value()) {
    summary["reached"] = StopText(job.stop());
  }
  PutLogged("logged", state.logged, &summary);
  if (time.has_value()) PutTime(*time, &summary);
  PutCounts(state, &summary);
  if (state.final_evaluation.has_value()) {
    const Evaluation& final = *state.final_evaluation;
    summary["weights_sha256"] = final.weights_sha256;
    if (final.samples > 0) PutMeasured(final, &summary);
  }
  // A message may quote bytes of a broken peer: never fail on them.
  return JsonText(summary, 2) + "\n";
}

}  // namespace sluice
