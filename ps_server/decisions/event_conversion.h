#ifndef SLUICE_PS_SERVER_DECISIONS_EVENT_CONVERSION_H_
#define SLUICE_PS_SERVER_DECISIONS_EVENT_CONVERSION_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/commit_log.pb.h"
#include "proto/coordinator.pb.h"
#include "ps_server/decisions/events.h"

// The coordinator's plain values to and from the messages of the wire and the
// records of the commit log. Pure functions.
namespace sluice {

// ---- What arrives. ----

// Whom `message` ("Join") names. kInvalidArgument: no such role, or a negative
// id.
absl::StatusOr<Peer> PeerFromProto(const std::string& message, proto::Role role,
                                   int64_t id);
// kInvalidArgument: what was logged is not as in
// common/telemetry/logged_values.h.
absl::StatusOr<Delivery> DeliveryFromProto(const proto::Ready& ready);
absl::StatusOr<Evaluation> EvaluationFromProto(
    const proto::Evaluated& evaluated);
StoredPart StoredPartFromProto(const proto::Stored& stored);
// The digests that a shard sent with `executed`.
RecordDigests DigestsFromProto(ShardId shard, const proto::Executed& executed);

// ---- What is sent. Neither `sequence` nor `ack` is set. ----

// `grant` shows the shards that room was granted (common/grant.h).
proto::FromCoordinator TaskToProto(const Task& task, const std::string& grant);
proto::FromCoordinator CancelToProto(const SendCancel& cancel);
proto::FromCoordinator VerdictToProto(const SendVerdict& verdict);
proto::FromCoordinator DecisionToProto(const Decision& decision);
proto::FromCoordinator EvaluateToProto(const SendEvaluate& evaluate);
proto::FromCoordinator FinishToProto(const FinishRun& finish);

// ---- The shard's side. ----

// A decision as the shard reads it. kInvalidArgument: of no known kind.
absl::StatusOr<Decision> DecisionFromProto(const proto::Decision& decision);
// What it answers to a Store, once its part is on the disk or could not be
// written.
proto::ToCoordinator StoredToProto(
    Generation generation, Version version,
    const absl::StatusOr<proto::CheckpointFile>& file);

// ---- What is recorded. `seconds` is not set. ----

proto::LogRecord RecordToProto(const RecordTask& record);
proto::LogRecord RecordToProto(const RecordEnd& record);
proto::LogRecord RecordToProto(const RecordCommit& record);
proto::LogRecord RecordToProto(const RecordDigests& record);
proto::LogRecord RecordToProto(const RecordInstructionSet& record);
proto::LogRecord RecordToProto(const RecordInputs& record);
// The version whose checkpoint `actions` decide; nullopt: of none. The commit
// log's next file begins behind them.
std::optional<Version> StoredIn(const Actions& actions);
// All that `actions` ask to be recorded, in order, as of `seconds` since the
// coordinator started.
std::vector<proto::LogRecord> RecordsOf(const Actions& actions, double seconds);

}  // namespace sluice

#endif  // SLUICE_PS_SERVER_DECISIONS_EVENT_CONVERSION_H_
