// Decisions come on the session's thread, are executed on the exchange's, and
// are answered from there. The first ones may come, and be executed, before
// Join has returned and set `client_`: their answers wait in early_, and Join
// sends them, in order, before it sets it.
//
// One answer speaks for all decisions up to its number (AnsweredDecisions). Of
// these, handed over at once, two are answered:
//
//   11 Commit v5    made; nobody is told yet
//   12 Discard      Executed(12): version 5 is made
//   13 Commit v6    Executed(13)
#include "ps_server/shard_agent.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "common/telemetry/log_value.h"
#include "ps_server/decisions/event_conversion.h"
#include "ps_server/shard/exchange_counters.h"
#include "ps_server/shard_options_from_job.h"
#include "third_party/spdlog.h"

namespace sluice {

namespace {

ShardFileIdentity IdentityIn(const ResolvedJob& job, ShardId shard) {
  return {.job_fingerprint = job.fingerprint,
          .layout_fingerprint = LayoutFingerprint(job.layout),
          .generation = {},
          .version = {},
          .shard = shard,
          .shards = job.layout.shards(),
          .range = job.layout.range(shard),
          .chunk_floats = ChunkFloats(job)};
}

}  // namespace

ShardAgent::ShardAgent(Options options, const ResolvedJob& job, Shard* shard,
                       ExchangeService* exchange)
    : shard_(shard),
      exchange_(exchange),
      security_(options.security),
      listener_(*options.listener),
      identity_(IdentityIn(job, options.shard)),
      checkpoint_dir_(options.checkpoint_dir) {
  if (!options.run_dir.empty() || !checkpoint_dir_.empty()) {
    writer_ = std::make_unique<BackgroundWriter>(options.run_dir, &disk_);
  }
  const proto::Limits& limits = job.job.limits();
  client_options_.address = options.coordinator;
  client_options_.credentials = security_.ToLead();
  client_options_.join.set_role(proto::SHARD);
  client_options_.join.set_id(options.shard.value());
  client_options_.join.set_fingerprint(job.fingerprint);
  client_options_.join.set_job(FormatJob(job.job));
  client_options_.join.set_address(options.address);
  client_options_.join.set_process(options.process);
  if (!options.initial_weights.empty()) {
    (*client_options_.join.mutable_inputs())["initial weights"] =
        options.initial_weights;
  }
  client_options_.start_timeout = absl::Seconds(limits.start_timeout_s());
  client_options_.rejoin_timeout = absl::Seconds(limits.rejoin_timeout_s());
  client_options_.told_to_end = [this] { return told_to_end_.load(); };
  client_options_.on_message = [this](const proto::FromCoordinator& message) {
    OnMessage(message);
  };
}

ShardAgent::~ShardAgent() {
  if (local_ != nullptr) local_->Close();
}

absl::Status ShardAgent::Join(bool rejoins) {
  client_options_.rejoins = rejoins;
  SLUICE_ASSIGN_OR_RETURN(
      std::unique_ptr<CoordinatorClient> client,
      CoordinatorClient::Connect(std::move(client_options_)));
  client->TellCounters([this] { return Counted(); });
  while (true) {
    std::vector<proto::ToCoordinator> early;
    {
      absl::MutexLock lock(&mu_);
      if (early_.empty()) {
        client_ = std::move(client);
        return absl::OkStatus();
      }
      early.swap(early_);
    }
    for (proto::ToCoordinator& message : early) {
      client->Send(std::move(message));
    }
  }
}

absl::Status ShardAgent::JoinHere(CoordinatorService* service) {
  local_ =
      LocalSession::Create({.service = service,
                            .join = std::move(client_options_.join),
                            .on_message = std::move(client_options_.on_message),
                            .counters = [this] { return Counted(); }});
  return local_->Join();
}

CounterMap ShardAgent::Counted() const {
  CounterMap counted;
  PutCounters(kExchangeCounters, exchange_->counters(), &counted);
  security_.CountRefused(listener_.refused_total(), &counted);
  security_.CountCertificate(&counted);
  return counted;
}

absl::StatusOr<proto::Finish> ShardAgent::Wait() {
  CoordinatorClient* client;
  {
    absl::MutexLock lock(&mu_);
    client = client_.get();
  }
  SLUICE_RETURN_IF_ERROR(client->Wait());
  absl::MutexLock lock(&mu_);
  return finish_.value_or(proto::Finish());
}

void ShardAgent::OnMessage(const proto::FromCoordinator& message) {
  if (message.has_decision()) {
    Execute(message.decision());
  } else if (message.has_finish()) {
    absl::MutexLock lock(&mu_);
    finish_ = message.finish();
  }
}

void ShardAgent::Execute(const proto::Decision& message) {
  absl::StatusOr<Decision> decision = DecisionFromProto(message);
  if (!decision.ok()) {
    proto::ToCoordinator answer;
    answer.mutable_executed()->set_fault(
        std::string(decision.status().message()));
    return Send(std::move(answer));
  }
  const int64_t number = decision->number;
  std::optional<BackgroundWriter::OwnDisk> own;
  {
    absl::MutexLock lock(&mu_);
    answered_.Begin(*decision);
    if (const auto* restore = std::get_if<Restore>(&decision->what)) {
      own_folder_ = absl::StrCat(checkpoint_dir_, "/", restore->run_id);
    }
    const auto* store = std::get_if<sluice::Store>(&decision->what);
    if (store != nullptr && !checkpoint_dir_.empty()) {
      own = {own_folder_, {store->oldest.first, store->oldest.second}};
    }
  }
  exchange_->Execute(
      *std::move(decision),
      [this, number, own](absl::StatusOr<Shard::Executed> outcome, int64_t last,
                          Version version) {
        OnExecuted(number, outcome, last, version);
        if (outcome.ok() && outcome->held.has_value()) {
          Store(*std::move(outcome->held), own);
        }
      });
}

void ShardAgent::OnExecuted(int64_t number,
                            const absl::StatusOr<Shard::Executed>& outcome,
                            int64_t last, Version version) {
  if (outcome.ok()) {
    absl::MutexLock lock(&mu_);
    if (!answered_.End(number, !outcome->digests.empty())) return;
  }
  proto::ToCoordinator answer;
  answer.mutable_executed()->set_decision(last);
  answer.mutable_executed()->set_version(version.value());
  if (outcome.ok()) {
    for (const uint64_t digest : outcome->digests) {
      answer.mutable_executed()->add_digest(digest);
    }
  } else {
    const absl::Status& fault = outcome.status();
    spdlog::error("event=fault error={}", LogValue(fault.ToString()));
    answer.mutable_executed()->set_fault(std::string(fault.message()));
  }
  Send(std::move(answer));
}

void ShardAgent::Store(Shard::HeldVersion held,
                       std::optional<BackgroundWriter::OwnDisk> own) {
  ShardFileIdentity identity = identity_;
  identity.generation = shard_->generation();
  identity.version = held.version;
  const auto report = [this, generation = identity.generation,
                       version = identity.version](
                          const absl::StatusOr<proto::CheckpointFile>& file) {
    ReportStored(generation, version, file);
  };
  const absl::Status ordered =
      writer_ == nullptr ? absl::FailedPreconditionError(
                               "has no run folder: --run-dir or output.run_dir")
                         : writer_->Write(std::move(identity), std::move(held),
                                          report, std::move(own));
  if (!ordered.ok()) report(ordered);
}

void ShardAgent::ReportStored(
    Generation generation, Version version,
    const absl::StatusOr<proto::CheckpointFile>& file) {
  if (absl::IsCancelled(file.status())) {
    spdlog::info(
        "event=not_stored version={} reason=\"the generation is over\"",
        version.value());
  } else if (!file.ok()) {
    spdlog::error("event=not_stored version={} error={}", version.value(),
                  LogValue(file.status().ToString()));
  }
  Send(StoredToProto(generation, version, file));
}

void ShardAgent::Send(proto::ToCoordinator message) {
  if (local_ != nullptr) return local_->Send(std::move(message));
  CoordinatorClient* client;
  {
    absl::MutexLock lock(&mu_);
    client = client_.get();
    if (client == nullptr) early_.push_back(std::move(message));
  }
  // Without the lock: it writes to the connection.
  if (client != nullptr) client->Send(std::move(message));
}

}  // namespace sluice
