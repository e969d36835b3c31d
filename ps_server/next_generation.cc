// What an end means to the process that sees it:
//
//   the session of a shard     a coordinator's generation
//   Finish                     FinishRun            the process ends
//   Finish, with a failure     FinishRun            kAborted: the run failed
//   kAborted                   EndGeneration        begins the next one
//   any other error                                 ends with that error
//                              Superseded           kPermissionDenied: another
//                                                   lead goes on
//
// A shard takes nothing along but the reason: the next coordinator tells it
// what to restore. The lead takes what is not on the disk: who took part, how
// often in a row no progress was made, and the checkpoint that it knows to be
// whole.
#include "ps_server/next_generation.h"

#include <variant>

namespace sluice {
namespace {

absl::StatusOr<std::optional<EarlierLife>> AfterRun(
    const std::string& failure) {
  if (failure.empty()) return std::nullopt;
  return absl::AbortedError(failure);
}

}  // namespace

absl::StatusOr<std::optional<EarlierLife>> AfterSession(
    const absl::StatusOr<proto::Finish>& session) {
  if (session.ok()) return AfterRun(session->failure());
  if (!absl::IsAborted(session.status())) return session.status();
  return EarlierLife{std::string(session.status().message())};
}

absl::StatusOr<std::optional<EarlierLife>> AfterGeneration(
    const GenerationEnd& end, const std::optional<std::string>& stop) {
  if (const auto* finish = std::get_if<FinishRun>(&end)) {
    return AfterRun(finish->failure);
  }
  if (std::holds_alternative<Superseded>(end)) {
    return absl::PermissionDeniedError(
        "another process has taken the next generation of the run: this one is "
        "over");
  }
  const auto& over = std::get<EndGeneration>(end);
  EarlierLife earlier{over.reason};
  earlier.recovery.furthest = over.furthest;
  earlier.recovery.fruitless = over.fruitless;
  earlier.recovery.begun = over.begun;
  earlier.recovery.workers = over.workers;
  earlier.recovery.evaluator = over.evaluator;
  earlier.recovery.stop = stop;
  earlier.recovery.reason = over.reason;
  earlier.run.stored = over.stored;
  return earlier;
}

GenerationStart BeginGeneration(const std::optional<Resumption>& resumption,
                                const RecoveryOptions& recovery,
                                bool recoverable, CoordinatorOptions* core) {
  core->recovery = recovery;
  core->recovery.possible = recoverable;
  if (!resumption.has_value()) return {};
  core->generation = resumption->generation;
  core->resume = resumption->point;
  core->instruction_set = resumption->instruction_set;
  core->inputs = resumption->inputs;
  for (const CheckpointId& id : resumption->there) {
    core->earlier_checkpoints.there.emplace_back(id.generation, id.version);
  }
  for (const CheckpointId& id : resumption->damaged) {
    core->earlier_checkpoints.damaged.emplace_back(id.generation, id.version);
  }
  core->earlier_checkpoints.read_whole = {resumption->point.generation,
                                          resumption->point.version};
  core->recovery.updates_lost = resumption->updates_lost;
  return {.generation = resumption->generation,
          .parent = resumption->point.generation,
          .restored = resumption->point.version,
          .tasks = resumption->tasks,
          .updates_lost = resumption->updates_lost,
          .reason = recovery.reason,
          .instruction_set = resumption->instruction_set,
          .inputs = resumption->inputs};
}

}  // namespace sluice
