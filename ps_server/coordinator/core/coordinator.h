#ifndef SLUICE_PS_SERVER_COORDINATOR_CORE_COORDINATOR_H_
#define SLUICE_PS_SERVER_COORDINATOR_CORE_COORDINATOR_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/ids.h"
#include "ps_server/coordinator/core/coordinator_options.h"
#include "ps_server/coordinator/core/job_state.h"
#include "ps_server/coordinator/core/training_snapshot.h"
#include "ps_server/decisions/events.h"

namespace sluice {

// Hands out mini-batches, decides which gradients make up each version, and
// watches who is alive. Pure: events and the time go in, actions come out, in
// the order in which they must be carried out. The service, the simulator and
// the tests all call this same code.
//
// `now` never decreases from call to call. Every method appends to `*out`,
// which is not cleared.
//
// Not thread-safe: call from one thread, or under one lock.
class Coordinator {
 public:
  Coordinator(CoordinatorOptions options, absl::Time now);
  ~Coordinator();

  struct JoinRequest {
    Peer peer;
    // The incarnation that resumes its session; 0 for a new life.
    Incarnation resume;
    std::string address;  // Shards: of the Exchange service.
    std::string process;  // Host and process id, for people.
    // What decides the bits besides the job, by name (InputAgreement).
    std::map<std::string, std::string> inputs;
  };
  struct JoinReply {
    Generation generation;
    Incarnation incarnation;
    bool resumed = false;  // The session's numbering goes on.
  };
  // Errors: kAlreadyExists (the id is taken by a living process), kAborted (the
  // resumed incarnation is over), kUnavailable (ask again: this generation is
  // over and the next one follows, or whether the one who has the id lives will
  // be known within its lease), kInvalidArgument (no such shard),
  // kFailedPrecondition (the run is over; or another input than a process
  // before it: devices may differ under all policies but SYNC).
  absl::StatusOr<JoinReply> Join(const JoinRequest& request, absl::Time now,
                                 Actions* out);

  // Call first with every message of a peer: renews its lease, which the calls
  // below do not. kAborted: this incarnation is over and the message must be
  // ignored.
  absl::Status Heard(Peer peer, Incarnation incarnation, absl::Time now);
  // A worker or the evaluator has not reached a shard for so long, and goes on
  // trying; empty: it reaches all. For people only.
  void CannotReach(Peer peer, Incarnation incarnation, const std::string& whom,
                   absl::Duration for_so_long, absl::Time now);
  // The stream broke; the lease runs on. Like Leave, it changes nothing where
  // the incarnation is over.
  void Disconnected(Peer peer, Incarnation incarnation, absl::Time now,
                    Actions* out);
  // The process leaves on its own account; it hands back its task.
  void Leave(Peer peer, Incarnation incarnation, const std::string& reason,
             absl::Time now, Actions* out);

  // Whoever started `process` has seen it end: its incarnation is over. Changes
  // nothing where `peer` is another process, or does not live.
  // kInvalidArgument: no such peer.
  absl::Status DeathReported(Peer peer, const std::string& process,
                             const std::string& reason, absl::Time now,
                             Actions* out);

  // Every shard has staged all of the gradient. kAborted: its task has ended
  // (the verdict has been or is being sent); kInvalidArgument: says what was
  // expected and what came. A repeat changes nothing: OK while the gradient
  // waits for its update, kAborted once it has its verdict. OK also for one too
  // stale to count: its verdict says so.
  absl::Status Ready(const Delivery& delivery, absl::Time now, Actions* out);
  // A shard refused the gradient (NaN or Inf); `reason` names the tensor.
  // kAborted: its task has ended; kInvalidArgument: it was Ready before.
  absl::Status Rejected(const GradientKey& key, const std::string& reason,
                        absl::Time now, Actions* out);
  // The shard has executed all decisions up to `number` and stands at
  // `version`. A non-empty `fault` says which decision it could not execute; it
  // ends the generation, and where it was the Restore, the run.
  // kInvalidArgument: no such shard, or a number never sent; kDataLoss: the
  // version is behind, which ends the generation, too.
  absl::Status Executed(ShardId shard, int64_t number, Version version,
                        const std::string& fault, absl::Time now, Actions* out);
  // The shard has written its part of the checkpoint of `version`, or could
  // not. kInvalidArgument: no such shard. A repeat, and what nobody waits for
  // any more, only cause what is left of it to be removed.
  absl::Status Stored(ShardId shard, Version version, StoredPart part,
                      absl::Time now, Actions* out);
  // The answer to StoreManifest; `error` is empty when it is on the disk. The
  // same goes for one that nobody waits for.
  void ManifestWritten(Version version, const std::string& error,
                       absl::Time now, Actions* out);
  // An answer that nobody waits for changes nothing.
  void Evaluated(const Evaluation& evaluation, absl::Time now, Actions* out);

  // Ends the run as if a stop condition had been reached; where this generation
  // is over, State() keeps it for the next one.
  void RequestStop(const std::string& reason, absl::Time now, Actions* out);

  // Expires leases and deadlines. Call every `options.tick`.
  void Tick(absl::Time now, Actions* out);

  // What a checkpoint of the newest version decided holds besides the weights.
  TrainingSnapshot TakeSnapshot(absl::Time now) const;

  // Everything a status page shows.
  JobState State(absl::Time now) const;

 private:
  class Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace sluice

#endif  // SLUICE_PS_SERVER_COORDINATOR_CORE_COORDINATOR_H_
