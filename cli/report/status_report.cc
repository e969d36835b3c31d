#include "cli/report/status_report.h"

#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "cli/launch/progress.h"
#include "cli/report/notable_counters.h"
#include "common/telemetry/counter_table.h"
#include "ps_server/coordinator/core/counters.h"

namespace sluice {
namespace {

GradientCounts CountsOf(const proto::WorkerStatus& worker) {
  const proto::GradientCounts& counts = worker.gradients();
  return {counts.applied(), counts.cancelled(), counts.dropped(),
          counts.rejected(), counts.lost()};
}

std::string Verdicts(const GradientCounts& counts) {
  return absl::StrFormat("%9d %9d %9d %9d %9d", counts.applied,
                         counts.cancelled, counts.dropped, counts.rejected,
                         counts.lost);
}

// Protobuf's maps have no order.
template <typename Value>
std::map<std::string, Value> Sorted(
    const google::protobuf::Map<std::string, Value>& message) {
  return {message.begin(), message.end()};
}

// "0: 12  1: 40  ... 31+: 2", without values that did not occur.
std::string Histogram(const proto::JobStatus& status) {
  std::string text;
  const int bins = status.staleness_histogram_size();
  for (int i = 0; i < bins; ++i) {
    if (status.staleness_histogram(i) == 0) continue;
    absl::StrAppend(&text, "  ", i, i == bins - 1 ? "+: " : ": ",
                    status.staleness_histogram(i));
  }
  return text;
}

// A peer that never joined has never been heard.
std::string LastHeard(const std::string& state, double seconds) {
  return state == "missing" ? "-" : absl::StrFormat("%.1f s", seconds);
}

// "checkpoints: version 40 is the newest, 4 written, 1 failed, 0 late" and what
// is under way or went wrong.
std::string Checkpoints(const proto::JobStatus& status) {
  const proto::CheckpointStatus& checkpoint = status.checkpoint();
  const CheckpointCounters counters =
      CountersFrom(kCheckpointCounters, status.counters());
  std::string text = absl::StrFormat(
      "checkpoints  %s, %d written, %d failed, %d late\n",
      checkpoint.has_newest_version()
          ? absl::StrCat("version ", checkpoint.newest_version(),
                         " is the newest")
          : absl::StrCat("none yet",
                         status.has_recovery() ? " in this generation" : ""),
      counters.written, counters.failed, counters.late);
  if (checkpoint.has_writing_version()) {
    absl::StrAppendFormat(&text, "writing version %d for %s\n",
                          checkpoint.writing_version(),
                          FormatSeconds(checkpoint.writing_s()));
  }
  if (!checkpoint.last_error().empty()) {
    absl::StrAppend(&text, "the last checkpoint that failed: ",
                    checkpoint.last_error(), "\n");
  }
  return text;
}

// "recovered    generation 3 goes on from version 40; 17 updates lost so far",
// and why.
std::string Recovery(const proto::JobStatus& status) {
  const proto::RecoveryStatus& recovery = status.recovery();
  std::string text = absl::StrFormat(
      "recovered    generation %d goes on from version %d; %d updates lost so "
      "far\n",
      status.generation(), recovery.restored_version(),
      recovery.updates_lost());
  if (!recovery.reason().empty()) {
    absl::StrAppend(&text, "because      ", recovery.reason(), "\n");
  }
  return text;
}

// "group 1, slot 2: host:17, host:18".
std::string ProcessesOf(const proto::WorkerStatus& worker) {
  std::string text = worker.place();
  if (!text.empty()) absl::StrAppend(&text, ": ");
  if (worker.members().empty()) return text + worker.process();
  return text + absl::StrJoin(worker.members(), ", ");
}

}  // namespace

std::string FormatStatus(const proto::JobStatus& status) {
  std::string text = absl::StrCat(
      status.name(), "  ", status.policy(), "  ", status.phase(), "  ",
      FormatSeconds(status.seconds()), "\n", FormatProgress(status), "\n");
  if (!status.run_id().empty()) {
    absl::StrAppendFormat(&text, "run %s, generation %d%s\n", status.run_id(),
                          status.generation(),
                          status.has_recovery() ? "" : ", begun at version 0");
  }
  if (!status.waiting_for().empty()) {
    absl::StrAppendFormat(&text, "waiting for %s since %s\n",
                          status.waiting_for(),
                          FormatSeconds(status.waiting_s()));
  }
  if (status.insecure()) {
    absl::StrAppend(&text,
                    "insecure     plain text, and not on the loopback alone\n");
  }
  if (status.has_certificate_expires_s()) {
    absl::StrAppendFormat(&text, "certificates the first expires in %s: %s's\n",
                          FormatSeconds(status.certificate_expires_s()),
                          status.certificate_of());
  }
  if (status.has_checkpoint()) {
    absl::StrAppend(&text, Checkpoints(status));
  }
  if (status.has_recovery()) absl::StrAppend(&text, Recovery(status));
  for (const auto& [what, value] : NotableCounters(Sorted(status.counters()))) {
    absl::StrAppend(&text, what, ": ", value, "\n");
  }
  for (const auto& [name, value] : Sorted(status.logged())) {
    absl::StrAppendFormat(&text, "%-12s %g\n", name, value);
  }
  absl::StrAppend(&text, "samples      ",
                  CountersFrom(kRunCounters, status.counters()).samples_applied,
                  " in the weights\n");
  absl::StrAppend(&text, "staleness", Histogram(status), "\n\n");
  absl::StrAppendFormat(&text, "%-10s %-10s %10s %8s %9s %9s %9s %9s %9s  %s\n",
                        "", "state", "last heard", "version", "applied",
                        "cancelled", "dropped", "rejected", "lost", "process");
  for (const proto::WorkerStatus& worker : status.worker()) {
    absl::StrAppendFormat(&text, "%-10s %-10s %10s %8s %s  %s\n",
                          absl::StrCat("worker ", worker.id()), worker.state(),
                          LastHeard(worker.state(), worker.last_heard_s()), "",
                          Verdicts(CountsOf(worker)), ProcessesOf(worker));
  }
  for (const proto::ShardStatus& shard : status.shard()) {
    absl::StrAppendFormat(&text, "%-10s %-10s %10s %8d %49s  %s\n",
                          absl::StrCat("shard ", shard.id()), shard.state(),
                          LastHeard(shard.state(), shard.last_heard_s()),
                          shard.version(), "", shard.process());
  }
  absl::StrAppendFormat(
      &text, "%-40s %s\n", "all gradients",
      Verdicts(CountersFrom(kRunCounters, status.counters())));
  for (const proto::WorkerStatus& worker : status.worker()) {
    if (worker.last_loss().empty()) continue;
    absl::StrAppend(&text, "worker ", worker.id(),
                    " was lost: ", worker.last_loss(), "\n");
  }
  return text;
}

std::string FormatProcessCounters(const proto::JobStatus& status) {
  std::string text;
  const auto add = [&text](const std::string& who, const auto& counters) {
    absl::StrAppendFormat(&text, "%-10s", who);
    for (const auto& [name, value] : Sorted(counters)) {
      if (value != 0) absl::StrAppend(&text, " ", name, "=", value);
    }
    absl::StrAppend(&text, "\n");
  };
  for (const proto::WorkerStatus& worker : status.worker()) {
    add(absl::StrCat("worker ", worker.id()), worker.counters());
  }
  for (const proto::ShardStatus& shard : status.shard()) {
    add(absl::StrCat("shard ", shard.id()), shard.counters());
  }
  return text;
}

}  // namespace sluice
