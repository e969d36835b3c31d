#ifndef SLUICE_PS_SERVER_NEXT_GENERATION_H_
#define SLUICE_PS_SERVER_NEXT_GENERATION_H_

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "proto/coordinator.pb.h"
#include "ps_server/coordinator/core/coordinator_options.h"
#include "ps_server/coordinator/log/run_files.h"
#include "ps_server/coordinator/session/coordinator_sessions.h"
#include "ps_server/resume.h"

// How one generation follows another in a ps_server: in place, in the same
// process. ShardServer puts sockets and threads around it, the simulated
// cluster of sim/testing a virtual clock. Pure.
namespace sluice {

// What a ps_server takes along from one generation to the next; all else is on
// the disk.
struct EarlierLife {
  std::string reason;             // Why that generation ended.
  RecoveryOptions recovery = {};  // Of the lead.
  KnownRun run = {};              // The same.
};

// What follows when a shard's session has ended: with a Finish, or with the
// error for which it did. With what to begin the next generation; nullopt: the
// run has reached its end. Else what the process
// ends with: kAborted: the run has failed; or the session's error.
absl::StatusOr<std::optional<EarlierLife>> AfterSession(
    const absl::StatusOr<proto::Finish>& session);

// The same for the lead, by how its coordinator's generation has ended. `stop`:
// why somebody has asked for the end of the run, if so, until nobody could ask
// any more: the next generation carries it out.
// kPermissionDenied: another lead goes on with the run.
absl::StatusOr<std::optional<EarlierLife>> AfterGeneration(
    const GenerationEnd& end, const std::optional<std::string>& stop);

// The generation that a lead is to take: where `resumption` goes on, or the
// first one, at version 0. Fills in what the coordinator must know of it.
// `recoverable`: another one can follow, since there is a run folder.
GenerationStart BeginGeneration(const std::optional<Resumption>& resumption,
                                const RecoveryOptions& recovery,
                                bool recoverable, CoordinatorOptions* core);

}  // namespace sluice

#endif  // SLUICE_PS_SERVER_NEXT_GENERATION_H_
