// The state's enums become words here and nowhere else. A worker that lives is
// "computing" or "waiting", a shard "serving"; else either is "missing" (not
// come yet), "suspect" (silent for a while), "dead", "cut off" or "left".
#include "ps_server/coordinator/report/job_status.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/telemetry/counter_table.h"
#include "common/tls/certificate_counter.h"
#include "ps_server/coordinator/core/counters.h"

namespace sluice {
namespace {

std::string PhaseName(Phase phase) {
  switch (phase) {
    case Phase::kStarting:
      return "starting";
    case Phase::kRunning:
      return "running";
    case Phase::kFinishing:
      return "finishing";
    case Phase::kFinished:
      return "finished";
    case Phase::kFailed:
      return "failed";
    case Phase::kRecovering:
      return "recovering";
  }
  return "";
}

// `alive` is the word for a living peer.
std::string LifeName(PeerLife life, const std::string& alive) {
  switch (life) {
    case PeerLife::kMissing:
      return "missing";
    case PeerLife::kAlive:
      return alive;
    case PeerLife::kSuspect:
      return "suspect";
    case PeerLife::kDead:
      return "dead";
    case PeerLife::kCutOff:
      return "cut off";
    case PeerLife::kLeft:
      return "left";
  }
  return "";
}

proto::GradientCounts CountsToProto(const GradientCounts& counts) {
  proto::GradientCounts out;
  out.set_applied(counts.applied);
  out.set_cancelled(counts.cancelled);
  out.set_dropped(counts.dropped);
  out.set_rejected(counts.rejected);
  out.set_lost(counts.lost);
  return out;
}

// 0 for who was never heard.
double SecondsSince(absl::Time then, absl::Time now) {
  if (then == absl::Time()) return 0;
  return std::max(0.0, absl::ToDoubleSeconds(now - then));
}

void AddWorker(const WorkerState& worker, absl::Time now,
               proto::JobStatus* out) {
  proto::WorkerStatus* added = out->add_worker();
  added->set_id(worker.id.value());
  added->set_state(
      LifeName(worker.life, worker.computing ? "computing" : "waiting"));
  added->set_incarnation(worker.incarnation.value());
  added->set_last_heard_s(SecondsSince(worker.last_heard, now));
  *added->mutable_gradients() = CountsToProto(worker.gradients);
  added->set_process(worker.process);
  added->mutable_members()->Assign(worker.members.begin(),
                                   worker.members.end());
  added->set_place(worker.place);
  added->set_extra(worker.extra);
  added->set_last_loss(worker.last_loss);
  added->mutable_counters()->insert(worker.counters.begin(),
                                    worker.counters.end());
}

void AddShard(const ShardState& shard, absl::Time now, proto::JobStatus* out) {
  proto::ShardStatus* added = out->add_shard();
  added->set_id(shard.id.value());
  added->set_state(LifeName(shard.life, "serving"));
  added->set_version(shard.version.value());
  added->set_last_heard_s(SecondsSince(shard.last_heard, now));
  added->set_address(shard.address);
  added->set_process(shard.process);
  added->mutable_counters()->insert(shard.counters.begin(),
                                    shard.counters.end());
}

void AddTaskTimes(const TaskTimes& times, proto::JobStatus* out) {
  for (const TaskPhase& phase : kTaskPhases) {
    const PhaseTimes& of = times.*phase.times;
    proto::TaskTime* added = out->add_task_time();
    added->set_phase(phase.name);
    added->set_seconds(of.seconds);
    added->mutable_histogram()->Assign(of.histogram.begin(),
                                       of.histogram.end());
  }
}

proto::CheckpointStatus CheckpointsToProto(const CheckpointState& state,
                                           absl::Time now) {
  proto::CheckpointStatus out;
  if (state.newest.has_value()) out.set_newest_version(state.newest->value());
  out.set_last_error(state.last_error);
  if (state.writing.has_value()) {
    out.set_writing_version(state.writing->value());
    out.set_writing_s(SecondsSince(state.writing_since, now));
  }
  return out;
}

// The certificate that expires first, of those that heartbeats tell of.
void AddCertificate(const std::string& holder, const CounterMap& counters,
                    proto::JobStatus* out) {
  const auto left = counters.find(kCertificateSecondsLeft);
  if (left == counters.end()) return;
  if (out->has_certificate_expires_s() &&
      out->certificate_expires_s() <= left->second) {
    return;
  }
  out->set_certificate_expires_s(left->second);
  out->set_certificate_of(holder);
}

}  // namespace

proto::JobStatus StatusToProto(const JobState& state, absl::Time now) {
  proto::JobStatus out;
  out.set_phase(PhaseName(state.phase));
  out.set_message(state.message);
  out.set_generation(state.generation.value());
  out.set_version(state.version.value());
  out.set_epoch(state.epoch);
  out.set_loss(state.loss);
  if (state.last_evaluation.has_value()) {
    out.set_test_loss(state.last_evaluation->loss);
    out.set_test_version(state.last_evaluation->version.value());
    if (state.last_evaluation->accuracy.has_value()) {
      out.set_test_accuracy(*state.last_evaluation->accuracy);
    }
  }
  out.set_seconds(absl::ToDoubleSeconds(state.running));
  out.set_mean_staleness(state.mean_staleness);
  for (const int64_t count : state.staleness_histogram) {
    out.add_staleness_histogram(count);
  }
  AddTaskTimes(state.task_times, &out);
  PutCounters(kRunCounters, state.counters, out.mutable_counters());
  for (const WorkerState& worker : state.workers) {
    AddWorker(worker, now, &out);
    AddCertificate(absl::StrCat("worker ", worker.id.value()), worker.counters,
                   &out);
  }
  for (const ShardState& shard : state.shards) {
    AddShard(shard, now, &out);
    AddCertificate(absl::StrCat("shard ", shard.id.value()), shard.counters,
                   &out);
  }
  out.set_waiting_for(state.waiting_for);
  if (!state.waiting_for.empty()) {
    out.set_waiting_s(SecondsSince(state.waiting_since, now));
  }
  if (state.checkpoints.has_value()) {
    *out.mutable_checkpoint() = CheckpointsToProto(*state.checkpoints, now);
    PutCounters(kCheckpointCounters, state.checkpoints->counters,
                out.mutable_counters());
  }
  if (state.recovery.has_value()) {
    proto::RecoveryStatus* recovery = out.mutable_recovery();
    recovery->set_restored_version(state.recovery->restored.value());
    recovery->set_updates_lost(state.recovery->updates_lost);
    recovery->set_reason(state.recovery->reason);
  }
  out.set_learning_rate(state.learning_rate);
  out.mutable_logged()->insert(state.logged.begin(), state.logged.end());
  out.set_progress(state.progress);
  return out;
}

}  // namespace sluice
