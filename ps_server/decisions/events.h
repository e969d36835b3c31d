#ifndef SLUICE_PS_SERVER_DECISIONS_EVENTS_H_
#define SLUICE_PS_SERVER_DECISIONS_EVENTS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/time/time.h"
#include "common/ids.h"
#include "common/telemetry/logged_values.h"
#include "proto/job.pb.h"
#include "ps_server/decisions/decision.h"

// What goes into the coordinator and what comes out of it, as plain values.
// The service turns them into messages, the simulator into calls.
namespace sluice {

struct TrainingSnapshot;

enum class Role { kWorker, kShard, kEvaluator };

// A process of the job: "worker 3", "shard 0", "evaluator".
struct Peer {
  Role role = Role::kWorker;
  int64_t id = 0;  // The evaluator's is 0.

  auto operator<=>(const Peer&) const = default;
  std::string ToString() const;
};

// What became of a gradient. Every task ends in exactly one of these. But for
// kApplied its mini-batches go out again, unless the job says to skip those of
// a bad gradient.
enum class Outcome {
  kApplied,    // It is part of an update.
  kCancelled,  // Others were taken, or its worker is gone or took too long.
  kDropped,    // It is too stale (staleness.action).
  kRejected,   // A worker or a shard found NaN or Inf in it.
  kLost,       // The generation that it was made in is over.
};

// "Compute the gradient of `batches` mini-batches from `first_batch` on".
struct Task {
  GradientKey key;
  BatchId first_batch;
  int batches = 1;
  // Weights to pull: exactly `version`, or that one or newer.
  Version version;
  bool exact = false;
  // Rate of the local steps; 0 unless there are several.
  double local_learning_rate = 0;
  // Its gradient's place in the order in which shards fold gradients (Fold),
  // from 0 in each update; nullopt: they do not.
  std::optional<int64_t> turn = std::nullopt;
};

// Every shard has staged all of a gradient.
struct Delivery {
  GradientKey key;
  // Version pulled from each shard, in shard order.
  std::vector<Version> shard_bases;
  int64_t samples = 0;
  double loss = 0;  // Mean over the samples.
  // What computing it took, the job's delay included, and what its transfers
  // took; 0: not measured.
  double compute_seconds = 0;
  double pull_seconds = 0;
  double push_seconds = 0;
  LoggedValues logged = {};

  bool operator==(const Delivery&) const = default;
};

// A shard's answer to a Store: the file that it has written, or why there is
// none.
struct StoredPart {
  std::string file;  // In the checkpoint's folder.
  // Its range of the flat vector, in floats.
  int64_t begin = 0;
  int64_t end = 0;
  int64_t bytes = 0;  // Of the whole file.
  uint64_t header_checksum = 0;
  std::string error;  // Not empty: it failed, and the rest is.
  // Where it is on a disk of the shard's own; else empty.
  std::string host = {};
  std::string path = {};

  bool operator==(const StoredPart&) const = default;
};

// The evaluator's answer: the version measured on the whole test split.
struct Evaluation {
  Version version;
  double loss = 0;                 // Mean over the samples.
  std::optional<double> accuracy;  // Share, 0 to 1; none for a regression.
  int64_t samples = 0;         // 0: the version was saved, and not measured.
  std::string weights_sha256;  // Of the final version only.
  std::string error;           // Not empty: it failed, and has no result.
  LoggedValues logged = {};

  bool operator==(const Evaluation&) const = default;
};

// ---- What comes out, in the order in which it must be carried out. ----

struct SendTask {
  Task task;
};
// Stop working on it now. Its verdict (kCancelled) follows.
struct SendCancel {
  GradientKey key;
  std::string reason;
};
// Exactly one for every task of a worker that lives, ready or not.
struct SendVerdict {
  GradientKey key;
  Outcome outcome = Outcome::kApplied;
  std::string reason;
  Version version;  // The one it went into, when applied.
};
// To every shard.
struct SendDecision {
  Decision decision;
};
// To the evaluator; the version is pinned until it answers.
struct SendEvaluate {
  Version version;
  bool final = false;
};
// To the commit log, before anything that follows in the list is sent.
struct RecordTask {
  Task task;
};
struct RecordEnd {
  GradientKey key;
  Outcome outcome = Outcome::kCancelled;
  std::string reason;
  // Since its gradient was ready; 0 when it was not.
  absl::Duration waited = absl::ZeroDuration();
  // That life of the worker was over before its gradient was ready.
  bool worker_lost = false;
};
struct RecordCommit {
  struct Entry {
    GradientKey key;
    BatchId first_batch;
    int batches = 1;
    std::vector<Version> shard_bases;
    float weight = 0;
    int64_t samples = 0;
    double loss = 0;
    absl::Duration waited = absl::ZeroDuration();  // Since it was ready.
  };
  Version version;
  double learning_rate = 0;
  std::vector<Entry> entries;
};
// What a shard has made of a version, of every so-many-th.
struct RecordDigests {
  ShardId shard;
  Version version;
  std::vector<uint64_t> digests;  // Of its tensors, in order.
};
// What the run's workers compute with from now on: the widest that all have.
struct RecordInstructionSet {
  proto::InstructionSet agreed = proto::INSTRUCTION_SET_UNSPECIFIED;
};
// What its processes had found when the run began: InputAgreement::Agreed.
struct RecordInputs {
  std::map<std::string, std::string> inputs;
};
// What computing one mini-batch took the worker of a gradient that it has
// delivered, the job's delay included; with local steps, the mean over them.
struct RecordComputeTime {
  WorkerId worker;
  double seconds = 0;
};
// A state change a person wants to read: one log line.
struct Announce {
  enum class Level { kInfo, kWarning, kError };
  Level level = Level::kInfo;
  std::string text;  // key=value
};
// An evaluation came in, for metrics.
struct RecordEvaluation {
  Evaluation evaluation;
};
// Every part is on the disk, so write what makes a checkpoint of them. Answered
// by Coordinator::ManifestWritten.
struct StoreManifest {
  Generation generation;
  Version version;
  std::vector<StoredPart> parts;  // By shard.
  // As of that version.
  std::shared_ptr<const TrainingSnapshot> snapshot;
};
// Whatever there is of that checkpoint is of no more use.
struct RemoveStored {
  Generation generation;
  Version version;
};
// The peer's incarnation is over: close its session; it may re-join.
struct EndSession {
  Peer peer;
  Incarnation incarnation;
  std::string reason;
};
// The run is over, for everybody. Empty failure: it reached its end.
struct FinishRun {
  std::string failure;
  std::string reason;
};
// This generation is over, and nothing more is decided in it: the run is to go
// back to its newest checkpoint, in the next one.
struct EndGeneration {
  std::string reason;  // "shard 1 died: not heard of for 5s"
  // For the next one's RecoveryOptions.
  Version furthest;
  int fruitless = 0;
  // The newest checkpoint that it wrote, or read whole, by (generation,
  // version); 0, 0: none.
  std::pair<Generation, Version> stored = {};
  bool begun = true;
  std::optional<std::set<WorkerId>> workers = {};
  bool evaluator = true;
};

using Action =
    std::variant<SendTask, SendCancel, SendVerdict, SendDecision, SendEvaluate,
                 RecordTask, RecordEnd, RecordCommit, RecordDigests,
                 RecordInstructionSet, RecordInputs, RecordComputeTime,
                 RecordEvaluation, StoreManifest, RemoveStored, Announce,
                 EndSession, FinishRun, EndGeneration>;
using Actions = std::vector<Action>;

}  // namespace sluice

#endif  // SLUICE_PS_SERVER_DECISIONS_EVENTS_H_
