// What comes over a session becomes values here, and what is decided becomes
// messages and records of the log. A commit of version 8 from two gradients:
//
//   Commit{8, rate 0.1, {{key a, 0.5}, {key b, 0.5}}}
//   commit { version: 8 learning_rate: 0.1 entry { key a weight: 0.5 } ... }
//
// The test converts values with every field set and compares messages whole: a
// field that is forgotten here fails it.
#include "ps_server/decisions/event_conversion.h"

#include <algorithm>
#include <string>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "common/key_proto.h"
#include "common/status_macros.h"
#include "common/telemetry/logged_values.h"

namespace sluice {
namespace {

proto::Outcome OutcomeToProto(Outcome outcome) {
  switch (outcome) {
    case Outcome::kApplied:
      return proto::APPLIED;
    case Outcome::kCancelled:
      return proto::CANCELLED;
    case Outcome::kDropped:
      return proto::DROPPED;
    case Outcome::kRejected:
      return proto::REJECTED;
    case Outcome::kLost:
      return proto::LOST;
  }
  return proto::OUTCOME_UNSPECIFIED;
}

// Writes one kind of decision into its message.
struct DecisionWriter {
  proto::Decision* out;

  void operator()(const Restore& restore) {
    out->mutable_restore()->set_generation(restore.generation.value());
    out->mutable_restore()->set_version(restore.version.value());
    out->mutable_restore()->set_grant_secret(restore.grant_secret);
    out->mutable_restore()->set_checkpoint_generation(
        restore.checkpoint.value());
    out->mutable_restore()->set_run_id(restore.run_id);
    out->mutable_restore()->set_manifest(restore.manifest);
  }
  void operator()(const Commit& commit) {
    proto::Commit* message = out->mutable_commit();
    message->set_version(commit.version.value());
    message->set_learning_rate(commit.learning_rate);
    message->set_pin(commit.pin);
    message->set_folded(commit.folded);
    Write(commit.entries, message->mutable_entry());
  }
  void operator()(const Fold& fold) {
    proto::Fold* message = out->mutable_fold();
    message->set_version(fold.version.value());
    message->set_total_weight(fold.total_weight);
    Write(fold.entries, message->mutable_entry());
  }
  void operator()(const Discard& discard) {
    for (const GradientKey& key : discard.keys) {
      *out->mutable_discard()->add_key() = KeyToProto(key);
    }
  }
  void operator()(const Pin& pin) { out->set_pin(pin.version.value()); }
  void operator()(const Release& release) {
    out->set_release(release.version.value());
  }
  void operator()(const Store& store) {
    proto::Store* message = out->mutable_store();
    message->set_version(store.version.value());
    message->set_oldest_generation(store.oldest.first.value());
    message->set_oldest_version(store.oldest.second.value());
  }

 private:
  static void Write(
      const std::vector<CommitEntry>& entries,
      google::protobuf::RepeatedPtrField<proto::CommitEntry>* to) {
    for (const CommitEntry& entry : entries) {
      proto::CommitEntry* added = to->Add();
      *added->mutable_key() = KeyToProto(entry.key);
      added->set_weight(entry.weight);
    }
  }
};

Discard DiscardFromProto(const proto::Discard& message) {
  Discard discard;
  for (const proto::Key& key : message.key()) {
    discard.keys.push_back(KeyFromProto(key));
  }
  return discard;
}

std::vector<CommitEntry> EntriesFromProto(
    const google::protobuf::RepeatedPtrField<proto::CommitEntry>& messages) {
  std::vector<CommitEntry> entries;
  for (const proto::CommitEntry& entry : messages) {
    entries.push_back({KeyFromProto(entry.key()), entry.weight()});
  }
  return entries;
}

Commit CommitFromProto(const proto::Commit& message) {
  Commit commit;
  commit.version = Version(message.version());
  commit.learning_rate = message.learning_rate();
  commit.entries = EntriesFromProto(message.entry());
  commit.pin = message.pin();
  commit.folded = message.folded();
  return commit;
}

absl::StatusOr<LoggedValues> LoggedFromProto(
    const google::protobuf::Map<std::string, double>& message) {
  LoggedValues values;
  for (const auto& [name, value] : message) {
    SLUICE_RETURN_IF_ERROR(AddLogged(name, value, &values));
  }
  return values;
}

}  // namespace

absl::StatusOr<Peer> PeerFromProto(const std::string& message, proto::Role role,
                                   int64_t id) {
  if (id < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(message, ".id: must be at least 0, is ", id));
  }
  switch (role) {
    case proto::WORKER:
      return Peer{Role::kWorker, id};
    case proto::SHARD:
      return Peer{Role::kShard, id};
    case proto::EVALUATOR:
      return Peer{Role::kEvaluator, id};
    default:
      return absl::InvalidArgumentError(absl::StrCat(
          message, ".role: must be WORKER, SHARD or EVALUATOR, is ", role));
  }
}

absl::StatusOr<Delivery> DeliveryFromProto(const proto::Ready& ready) {
  Delivery delivery;
  delivery.key = KeyFromProto(ready.key());
  for (const int64_t base : ready.shard_base()) {
    delivery.shard_bases.push_back(Version(base));
  }
  delivery.samples = ready.samples();
  delivery.loss = ready.loss();
  delivery.compute_seconds = ready.compute_seconds();
  delivery.pull_seconds = ready.pull_seconds();
  delivery.push_seconds = ready.push_seconds();
  SLUICE_ASSIGN_OR_RETURN(delivery.logged, LoggedFromProto(ready.logged()));
  return delivery;
}

RecordDigests DigestsFromProto(ShardId shard, const proto::Executed& executed) {
  return {shard,
          Version(executed.version()),
          {executed.digest().begin(), executed.digest().end()}};
}

absl::StatusOr<Evaluation> EvaluationFromProto(
    const proto::Evaluated& evaluated) {
  Evaluation evaluation;
  evaluation.version = Version(evaluated.version());
  evaluation.loss = evaluated.loss();
  if (evaluated.has_accuracy()) evaluation.accuracy = evaluated.accuracy();
  evaluation.samples = evaluated.samples();
  evaluation.weights_sha256 = evaluated.weights_sha256();
  evaluation.error = evaluated.error();
  SLUICE_ASSIGN_OR_RETURN(evaluation.logged,
                          LoggedFromProto(evaluated.logged()));
  return evaluation;
}

StoredPart StoredPartFromProto(const proto::Stored& stored) {
  StoredPart part;
  part.file = stored.file().name();
  part.begin = stored.file().begin();
  part.end = stored.file().end();
  part.bytes = stored.file().bytes();
  part.header_checksum = stored.file().header_checksum();
  part.host = stored.file().host();
  part.path = stored.file().path();
  part.error = stored.error();
  return part;
}

proto::ToCoordinator StoredToProto(
    Generation generation, Version version,
    const absl::StatusOr<proto::CheckpointFile>& file) {
  proto::ToCoordinator out;
  proto::Stored* stored = out.mutable_stored();
  stored->set_generation(generation.value());
  stored->set_version(version.value());
  if (file.ok()) {
    *stored->mutable_file() = *file;
  } else {
    stored->set_error(std::string(file.status().message()));
  }
  return out;
}

proto::FromCoordinator TaskToProto(const Task& task, const std::string& grant) {
  proto::FromCoordinator out;
  proto::Task* message = out.mutable_task();
  *message->mutable_key() = KeyToProto(task.key);
  message->set_grant(grant);
  message->set_first_batch(task.first_batch.value());
  message->set_batches(task.batches);
  message->set_version(task.version.value());
  message->set_exact(task.exact);
  message->set_local_learning_rate(task.local_learning_rate);
  return out;
}

proto::FromCoordinator CancelToProto(const SendCancel& cancel) {
  proto::FromCoordinator out;
  *out.mutable_cancel()->mutable_key() = KeyToProto(cancel.key);
  out.mutable_cancel()->set_reason(cancel.reason);
  return out;
}

proto::FromCoordinator VerdictToProto(const SendVerdict& verdict) {
  proto::FromCoordinator out;
  proto::Verdict* message = out.mutable_verdict();
  *message->mutable_key() = KeyToProto(verdict.key);
  message->set_outcome(OutcomeToProto(verdict.outcome));
  message->set_reason(verdict.reason);
  message->set_version(verdict.version.value());
  return out;
}

proto::FromCoordinator DecisionToProto(const Decision& decision) {
  proto::FromCoordinator out;
  out.mutable_decision()->set_number(decision.number);
  std::visit(DecisionWriter{out.mutable_decision()}, decision.what);
  return out;
}

proto::FromCoordinator EvaluateToProto(const SendEvaluate& evaluate) {
  proto::FromCoordinator out;
  out.mutable_evaluate()->set_version(evaluate.version.value());
  out.mutable_evaluate()->set_final(evaluate.final);
  return out;
}

proto::FromCoordinator FinishToProto(const FinishRun& finish) {
  proto::FromCoordinator out;
  out.mutable_finish()->set_failure(finish.failure);
  out.mutable_finish()->set_reason(finish.reason);
  return out;
}

absl::StatusOr<Decision> DecisionFromProto(const proto::Decision& decision) {
  Decision out;
  out.number = decision.number();
  switch (decision.kind_case()) {
    case proto::Decision::kRestore:
      out.what = Restore{Generation(decision.restore().generation()),
                         Version(decision.restore().version()),
                         decision.restore().grant_secret(),
                         Generation(decision.restore().checkpoint_generation()),
                         decision.restore().run_id(),
                         decision.restore().manifest()};
      return out;
    case proto::Decision::kCommit:
      out.what = CommitFromProto(decision.commit());
      return out;
    case proto::Decision::kFold:
      out.what = Fold{Version(decision.fold().version()),
                      decision.fold().total_weight(),
                      EntriesFromProto(decision.fold().entry())};
      return out;
    case proto::Decision::kDiscard:
      if (decision.discard().key().empty()) {
        return absl::InvalidArgumentError(
            absl::StrCat("decision ", decision.number(), " discards nothing"));
      }
      out.what = DiscardFromProto(decision.discard());
      return out;
    case proto::Decision::kPin:
      out.what = Pin{Version(decision.pin())};
      return out;
    case proto::Decision::kRelease:
      out.what = Release{Version(decision.release())};
      return out;
    case proto::Decision::kStore:
      out.what = Store{Version(decision.store().version()),
                       {Generation(decision.store().oldest_generation()),
                        Version(decision.store().oldest_version())}};
      return out;
    case proto::Decision::KIND_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("decision ", decision.number(), " is of no known kind"));
}

proto::LogRecord RecordToProto(const RecordTask& record) {
  proto::LogRecord out;
  proto::LogTask* task = out.mutable_task();
  task->set_worker(record.task.key.worker.value());
  task->set_incarnation(record.task.key.incarnation.value());
  task->set_sequence(record.task.key.sequence.value());
  task->set_first_batch(record.task.first_batch.value());
  task->set_batches(record.task.batches);
  task->set_version(record.task.version.value());
  task->set_local_learning_rate(record.task.local_learning_rate);
  return out;
}

proto::LogRecord RecordToProto(const RecordEnd& record) {
  proto::LogRecord out;
  proto::LogEnd* end = out.mutable_end();
  end->set_worker(record.key.worker.value());
  end->set_incarnation(record.key.incarnation.value());
  end->set_sequence(record.key.sequence.value());
  end->set_outcome(OutcomeToProto(record.outcome));
  end->set_reason(record.reason);
  end->set_waited_seconds(absl::ToDoubleSeconds(record.waited));
  end->set_worker_lost(record.worker_lost);
  return out;
}

proto::LogRecord RecordToProto(const RecordCommit& record) {
  proto::LogRecord out;
  proto::LogCommit* commit = out.mutable_commit();
  commit->set_version(record.version.value());
  commit->set_learning_rate(record.learning_rate);
  for (const RecordCommit::Entry& entry : record.entries) {
    proto::LogEntry* added = commit->add_entry();
    added->set_worker(entry.key.worker.value());
    added->set_incarnation(entry.key.incarnation.value());
    added->set_sequence(entry.key.sequence.value());
    added->set_first_batch(entry.first_batch.value());
    added->set_batches(entry.batches);
    for (const Version base : entry.shard_bases) {
      added->add_shard_base(base.value());
    }
    // Mostly all shards have given the same one: said once.
    if (absl::c_all_of(entry.shard_bases, [&](Version base) {
          return base == entry.shard_bases[0];
        })) {
      added->mutable_shard_base()->Truncate(
          std::min(added->shard_base_size(), 1));
    }
    added->set_weight(entry.weight);
    added->set_samples(entry.samples);
    added->set_loss(entry.loss);
    added->set_waited_seconds(absl::ToDoubleSeconds(entry.waited));
  }
  return out;
}

proto::LogRecord RecordToProto(const RecordDigests& record) {
  proto::LogRecord out;
  proto::LogDigests* digests = out.mutable_digests();
  digests->set_shard(record.shard.value());
  digests->set_version(record.version.value());
  digests->mutable_digest()->Add(record.digests.begin(), record.digests.end());
  return out;
}

proto::LogRecord RecordToProto(const RecordInstructionSet& record) {
  proto::LogRecord out;
  out.set_instruction_set(record.agreed);
  return out;
}

proto::LogRecord RecordToProto(const RecordInputs& record) {
  proto::LogRecord out;
  out.mutable_inputs()->mutable_inputs()->insert(record.inputs.begin(),
                                                 record.inputs.end());
  return out;
}

std::optional<Version> StoredIn(const Actions& actions) {
  std::optional<Version> version;
  for (const Action& action : actions) {
    const auto* decision = std::get_if<SendDecision>(&action);
    if (decision == nullptr) continue;
    const auto* store = std::get_if<Store>(&decision->decision.what);
    if (store != nullptr) version = store->version;
  }
  return version;
}

std::vector<proto::LogRecord> RecordsOf(const Actions& actions,
                                        double seconds) {
  std::vector<proto::LogRecord> records;
  for (const Action& action : actions) {
    if (const auto* task = std::get_if<RecordTask>(&action)) {
      records.push_back(RecordToProto(*task));
    } else if (const auto* end = std::get_if<RecordEnd>(&action)) {
      records.push_back(RecordToProto(*end));
    } else if (const auto* commit = std::get_if<RecordCommit>(&action)) {
      records.push_back(RecordToProto(*commit));
    } else if (const auto* digests = std::get_if<RecordDigests>(&action)) {
      records.push_back(RecordToProto(*digests));
    } else if (const auto* set = std::get_if<RecordInstructionSet>(&action)) {
      records.push_back(RecordToProto(*set));
    } else if (const auto* inputs = std::get_if<RecordInputs>(&action)) {
      records.push_back(RecordToProto(*inputs));
    } else {
      continue;
    }
    records.back().set_seconds(seconds);
  }
  return records;
}

}  // namespace sluice
