// The order in which a server begins and ends, and why:
//
//   Listen            first, so that a port that is taken costs no generation;
//                     what connects waits
//   TakeGeneration    in the lead, when it can be reached; and says where,
//                     so that whoever is to connect waits in its port
//   Serve             calls are answered from here on; or ServeEnd, where there
//                     is no generation to be taken, as the run has reached
//                     its end
//
//   StopServing       restoring_ before the exchange, whose thread may be in it
//                     and wait for a disk; the calls before the threads that
//                     answer them; the agent after the exchange, which uses it
//   State             in the lead: only now can nobody ask for a stop any more,
//                     so none is forgotten in the next generation
//   Close             in the lead: writes the files; nothing changes any more
#include "ps_server/shard_server.h"

#include <grpcpp/server_builder.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <system_error>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/files/file_operations.h"
#include "common/job/resolved_job.h"
#include "common/process/exit_codes.h"
#include "common/process/process_name.h"
#include "common/rpc/channel_options.h"
#include "common/rpc/deadline.h"
#include "common/run_id.h"
#include "common/status_macros.h"
#include "common/telemetry/counter_table.h"
#include "common/telemetry/log_value.h"
#include "ps_server/addresses.h"
#include "ps_server/coordinator/log/commit_log_file.h"
#include "ps_server/coordinator/log/generations.h"
#include "ps_server/coordinator/session/finished_run.h"
#include "ps_server/coordinator/session/job_agreement.h"
#include "ps_server/resume.h"
#include "ps_server/shard/exchange_counters.h"
#include "ps_server/shard_options_from_job.h"
#include "third_party/spdlog.h"

namespace sluice {
namespace {

// When the run is over nobody needs an answer any more; this only lets those
// go out that are being written.
constexpr absl::Duration kShutdownGrace = absl::Milliseconds(200);

// How often it is tried to write where the shards are: whoever looks for it
// finds it soon, and the attempts cost nothing.
constexpr absl::Duration kWriteAddressesEvery = absl::Seconds(1);

// A lead looks several times a second whether it has been replaced.
constexpr absl::Duration kLongestTakeover = absl::Seconds(5);
constexpr absl::Duration kLookForEndEvery = absl::Milliseconds(50);

// Says what cannot be read, and waits.
PauseForStorage SaidIn(StoppablePause* pause) {
  return [pause](const absl::Status& why, absl::Duration duration) {
    spdlog::warn("event=storage_retry pause_seconds={} error={}",
                 absl::ToDoubleSeconds(duration), LogValue(why.message()));
    return pause->For(duration);
  };
}

absl::Duration StorageTimeout(const ResolvedJob& job) {
  return absl::Seconds(job.job.limits().storage_timeout_s());
}

// Memory for the shard's weights that workers of this host can read. nullptr:
// the job wants none, or there is none.
std::shared_ptr<SharedChunks> SharedWeights(const ResolvedJob& job,
                                            const ShardOptions& options) {
  if (job.job.wire().shared_memory() != proto::Wire::AUTO) return nullptr;
  auto shared = SharedChunks::CreateFor(
      ChunkGrid(options.layout.range(options.id).size(), ChunkFloats(job)),
      options.max_held);
  if (shared.ok()) return *std::move(shared);
  spdlog::warn("event=no_shared_memory reason={}",
               LogValue(shared.status().message()));
  return nullptr;
}

// `restoring`: what it waits in, on the exchange thread, for a disk to answer.
// Nobody is served before a Restore; sessions have threads of their own.
ShardOptions OptionsOf(const Flags& flags, const ResolvedJob& job,
                       std::shared_ptr<const InitialWeights> weights,
                       StoppablePause* restoring) {
  ShardOptions options =
      ShardOptionsFromJob(job, ShardId(flags.shard), std::move(weights));
  options.shared_weights = SharedWeights(job, options);
  const std::string run_dir = RunFolderOf(flags, job.job);
  if (run_dir.empty() && flags.checkpoint_dir.empty()) return options;
  options.stored_version = [job, run_dir, restoring](const Restore& of,
                                                     ParameterRange range) {
    return ReadWithRetries(
        StorageTimeout(job), Clock::Real(), SaidIn(restoring),
        [&] { return ReadStoredVersion(job, run_dir, of, range); });
  };
  return options;
}

void LogRecovery(const Resumption& resumption, const std::string& reason) {
  for (const absl::Status& status : resumption.passed_over) {
    spdlog::warn("event=passed_over reason={}", LogValue(status.message()));
  }
  const bool from_checkpoint = resumption.point.generation > Generation(0);
  spdlog::warn(
      "event=resuming generation={} from_generation={} version={} "
      "lost_tasks={} lost_updates_total={} reason={}",
      resumption.generation.value(), resumption.point.generation.value(),
      resumption.point.version.value(), resumption.lost,
      resumption.updates_lost, LogValue(reason));
  if (from_checkpoint) return;
  spdlog::warn(
      "event=from_version_0 reason=\"there is no whole checkpoint: everything "
      "is trained again\"");
}

// Where a lead that is to go on does so; nullopt: it begins.
absl::StatusOr<std::optional<Resumption>> RecoveryOf(const ResolvedJob& job,
                                                     const std::string& run_dir,
                                                     const KnownRun& known,
                                                     const std::string& reason,
                                                     StoppablePause* pause) {
  if (run_dir.empty()) {
    return absl::InvalidArgumentError(
        "--resume: needs the folder of the run: give --run-dir or "
        "output.run_dir");
  }
  SLUICE_ASSIGN_OR_RETURN(
      auto recovery,
      ReadWithRetries(StorageTimeout(job), Clock::Real(), SaidIn(pause),
                      [&] { return FindRecovery(job, run_dir, known); }));
  if (recovery.has_value()) LogRecovery(*recovery, reason);
  return recovery;
}

// The newest generation, if its lead lives; nullopt: it does not, or nobody can
// tell.
std::optional<Generation> LivingLeadOf(const std::string& run_dir) {
  const auto generations = ListGenerations(run_dir);
  if (!generations.ok() || generations->empty() ||
      !LogIsHeld(run_dir, generations->back())) {
    return std::nullopt;
  }
  return generations->back();
}

// Waits for the lead to find that the next generation is taken, and to end; for
// at most kLongestTakeover, as it may stand still. Or until `pause` is stopped.
void AwaitEndOfLead(const std::string& run_dir, Generation generation,
                    StoppablePause* pause) {
  spdlog::warn("event=takeover from_generation={} reason=\"its lead lives\"",
               generation.value());
  const absl::Time end = Clock::Real()->Now() + kLongestTakeover;
  while (LogIsHeld(run_dir, generation) && Clock::Real()->Now() < end &&
         pause->For(kLookForEndEvery)) {
  }
}

void LogRun(const std::string& run_id, bool resume, bool goes_on) {
  if (resume && !goes_on) {
    return spdlog::warn(
        "event=new_run run_id={} reason=\"the run folder holds no run; with "
        "--run-id none would begin there\"",
        run_id);
  }
  spdlog::info("event=run run_id={}", run_id);
}

// What went through the shard, for whoever counts bytes or looks for repeats.
void Log(const ExchangeCounters& counters) {
  spdlog::info("event=exchanged {}", CountersText(kExchangeCounters, counters));
}

}  // namespace

ShardServer::ShardServer(const Flags& flags, const ResolvedJob& job,
                         std::shared_ptr<const InitialWeights> weights,
                         const std::optional<EarlierLife>& earlier,
                         const TransportSecurity& security, Listener* listener,
                         ProcessPort* port)
    : number_(flags.shard),
      initial_weights_(std::move(weights)),
      earlier_(earlier),
      security_(security),
      listener_(*listener),
      port_(port),
      shard_(OptionsOf(flags, job, initial_weights_, &restoring_)),
      exchange_(&shard_, clock_,
                absl::Seconds(job.job.limits().transfer_stall_s()), security_,
                listener) {}

ShardServer::~ShardServer() { StopServing(); }

absl::StatusOr<std::unique_ptr<ShardServer>> ShardServer::Start(
    const Flags& flags, const ResolvedJob& job,
    std::shared_ptr<const InitialWeights> weights,
    const std::optional<EarlierLife>& earlier,
    const TransportSecurity& security, Listener* listener,
    StoppablePause* pause, ProcessPort* port) {
  const int shards = job.job.cluster().shards();
  if (flags.shard < 0 || flags.shard >= shards) {
    return absl::InvalidArgumentError(
        absl::StrCat("--shard: must be 0 to ", shards - 1,
                     " (cluster.shards - 1), is ", flags.shard));
  }
  if (!flags.run_id.empty()) SLUICE_RETURN_IF_ERROR(CheckRunId(flags.run_id));
  const bool own = !flags.checkpoint_dir.empty();
  std::error_code error;
  if (own && !std::filesystem::is_directory(flags.checkpoint_dir, error)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--checkpoint-dir: ", flags.checkpoint_dir,
                     ": is no folder, expected one on this host"));
  }
  if (job.job.has_checkpoint() && RunFolderOf(flags, job.job).empty() &&
      (!own || flags.shard == 0)) {
    return absl::InvalidArgumentError(
        "checkpoint: needs the run folder, one that all shards share: give "
        "--run-dir or output.run_dir; shards but 0 may have --checkpoint-dir "
        "instead");
  }
  std::unique_ptr<ShardServer> server(new ShardServer(
      flags, job, std::move(weights), earlier, security, listener, port));
  SLUICE_RETURN_IF_ERROR(server->Listen(flags, job));
  if (flags.shard == 0) {
    const absl::Status taken = server->TakeGeneration(flags, job, pause);
    if (absl::IsOutOfRange(taken)) {
      SLUICE_RETURN_IF_ERROR(server->ServeEnd(job, RunFolderOf(flags, job.job),
                                              std::string(taken.message()),
                                              pause));
    }
    // A run folder that is away may come back.
    if (absl::IsUnavailable(taken)) return AskForRestart(taken);
    SLUICE_RETURN_IF_ERROR(taken);
  }
  SLUICE_RETURN_IF_ERROR(server->Serve(flags, job));
  return server;
}

absl::Status ShardServer::Listen(const Flags& flags, const ResolvedJob& job) {
  const bool lead = number_ == 0;
  SLUICE_ASSIGN_OR_RETURN(const std::string listen,
                          ListenAddress(flags, job.job));
  SLUICE_ASSIGN_OR_RETURN(
      address_, AdvertisedAddress(flags, listen, listener_.port(), HostName()));
  if (!lead) {
    SLUICE_ASSIGN_OR_RETURN(coordinator_, CoordinatorAddress(flags, job.job));
  }
  grpc::ServerBuilder builder;
  ApplyServerOptions(&builder);
  auto connections = Listener::AddTo(&builder, security_.ForServer());
  exchange_.Register(&builder, /*begins_connections=*/!lead);
  if (lead) {
    endpoint_ =
        std::make_unique<CoordinatorEndpoint>(nullptr, security_, &listener_);
    endpoint_->Register(&builder, /*begins_connections=*/false);
    new_connections_ = std::make_unique<NewConnections>(&builder);
  }
  server_ = builder.BuildAndStart();
  if (server_ == nullptr) {
    return absl::InternalError("gRPC could not start a server");
  }
  listener_.Serve(std::move(connections), new_connections_.get());
  spdlog::info("event=listening address={} tls={} insecure={}", address_,
               security_.tls(), security_.insecure());
  return absl::OkStatus();
}

absl::Status ShardServer::TakeGeneration(const Flags& flags,
                                         const ResolvedJob& job,
                                         StoppablePause* pause) {
  const std::string run_dir = RunFolderOf(flags, job.job);
  KnownRun known =
      earlier_.has_value() ? earlier_->run : KnownRun{.id = flags.run_id};
  std::optional<Generation> living;
  if (flags.resume && !earlier_.has_value()) living = LivingLeadOf(run_dir);
  SLUICE_RETURN_IF_ERROR(TakeNext(flags, job, known, pause));
  if (!living.has_value()) return absl::OkStatus();
  AwaitEndOfLead(run_dir, *living, pause);
  known.generation = lead_->generation();
  lead_.reset();
  return TakeNext(flags, job, known, pause);
}

absl::Status ShardServer::TakeNext(const Flags& flags, const ResolvedJob& job,
                                   const KnownRun& known,
                                   StoppablePause* pause) {
  const std::string run_dir = RunFolderOf(flags, job.job);
  RecoveryOptions recovery;
  recovery.reason = "shard 0 was started again";
  if (earlier_.has_value()) recovery = earlier_->recovery;
  std::optional<Resumption> resumption;
  if (flags.resume || earlier_.has_value()) {
    SLUICE_ASSIGN_OR_RETURN(
        resumption, RecoveryOf(job, run_dir, known, recovery.reason, pause));
  }
  run_id_ = resumption.has_value() ? resumption->run_id : "";
  if (run_id_.empty()) run_id_ = known.id;
  if (run_id_.empty()) run_id_ = DrawRunId(clock_->Now());
  LogRun(run_id_, flags.resume, resumption.has_value());
  std::unique_ptr<Lead> lead;  // The generation is taken once.
  const auto take = [&]() -> absl::StatusOr<std::unique_ptr<Lead>> {
    if (lead == nullptr) {
      auto created =
          Lead::Create(job, run_dir, resumption, recovery, run_id_, clock_);
      // What is left is the log of a generation that never began.
      if (resumption.has_value() && LeavesLog(created.status())) {
        resumption->generation = resumption->generation + 1;
      }
      SLUICE_ASSIGN_OR_RETURN(lead, std::move(created));
    }
    SLUICE_RETURN_IF_ERROR(lead->WriteAddresses(address_, {}));
    return std::move(lead);
  };
  SLUICE_ASSIGN_OR_RETURN(
      lead_, ReadWithRetries(StorageTimeout(job), clock_, SaidIn(pause), [&] {
        auto taken = take();
        if (!absl::IsResourceExhausted(taken.status())) return taken;
        return decltype(taken)(
            absl::UnavailableError(taken.status().message()));
      }));
  if (!run_dir.empty() && !job.job.has_checkpoint()) {
    spdlog::warn(
        "event=no_checkpoints reason=\"the job has no `checkpoint`: when a "
        "shard dies, training begins again at version 0\"");
  }
  return absl::OkStatus();
}

absl::Status ShardServer::ServeEnd(const ResolvedJob& job,
                                   const std::string& run_dir,
                                   const std::string& reason,
                                   StoppablePause* pause) {
  spdlog::info("event=over reason={}", LogValue(reason));
  FinishedRun finished(JobAgreement(job.fingerprint, FormatJob(job.job)),
                       reason);
  ServeCoordinator(&finished);
  const bool over = pause->For(absl::Seconds(job.job.limits().lease_s()));
  StopServing();
  if (!over) return absl::OkStatus();  // Not all of them may have heard.
  return FileOperations().Remove(absl::StrCat(run_dir, "/", kFarewell));
}

absl::Status ShardServer::Serve(const Flags& flags, const ResolvedJob& job) {
  SLUICE_ASSIGN_OR_RETURN(const std::string initial_weights,
                          initial_weights_->Digest());
  // What the manifest names must not depend on where this process began.
  std::error_code error;
  const std::string own_checkpoints =
      flags.checkpoint_dir.empty()
          ? ""
          : std::filesystem::absolute(flags.checkpoint_dir, error).string();
  ExchangeService::TakeReady take_ready;
  if (lead_ != nullptr && job.job.cluster().shards() == 1) {
    take_ready = [service = lead_->service()](const GradientKey& key,
                                              const std::string& ready) {
      return service->OnPushedReady(key, ready);
    };
  }
  exchange_.Start(std::move(take_ready));
  if (lead_ != nullptr) ServeCoordinator(lead_->service());
  agent_ = std::make_unique<ShardAgent>(
      ShardAgent::Options{.shard = ShardId(number_),
                          .address = address_,
                          .coordinator = coordinator_,
                          .security = security_,
                          .listener = &listener_,
                          .process = ProcessName(),
                          .initial_weights = initial_weights,
                          .run_dir = RunFolderOf(flags, job.job),
                          .checkpoint_dir = own_checkpoints},
      job, &shard_, &exchange_);
  return absl::OkStatus();
}

void ShardServer::ServeCoordinator(CoordinatorEndpoint::Handler* handler) {
  endpoint_->SetHandler(handler);
  endpoint_->Start();
  new_connections_->Start();
  new_connections_->Came();  // Some may have waited since Listen.
}

absl::StatusOr<std::optional<EarlierLife>> ShardServer::Run() {
  if (lead_ != nullptr) return RunLead();
  const absl::Status joined = agent_->Join(/*rejoins=*/earlier_.has_value());
  if (joined.ok()) port_->Joined([this] { return agent_->Counted(); });
  return AfterSession(joined.ok() ? agent_->Wait()
                                  : absl::StatusOr<proto::Finish>(joined));
}

absl::StatusOr<std::optional<EarlierLife>> ShardServer::RunLead() {
  const absl::Status joined = agent_->JoinHere(lead_->service());
  // A run that was stopped before it began has an end like any other; and a
  // generation may be over before anybody has joined.
  if (!joined.ok() && !absl::IsCancelled(joined) && !lead_->service()->over()) {
    return joined;
  }
  WriteAllAddresses();
  const GenerationEnd end = lead_->service()->AwaitEnd();
  StopServing();
  {
    absl::MutexLock lock(&lead_mu_);
    lead_closed_ = true;
    if (std::holds_alternative<FinishRun>(end)) final_status_ = LeadStatus();
  }
  // Only now can nobody ask any more.
  const auto stop = lead_->service()->State().stop_requested;
  if (absl::Status closed = lead_->Close(end); !closed.ok()) {
    absl::MutexLock lock(&lead_mu_);
    final_status_.reset();  // What is not on the disk is no end to be shown.
    return closed;
  }
  auto next = AfterGeneration(end, stop);
  if (next.ok() && next->has_value()) {
    (*next)->run.id = run_id_;
    (*next)->run.generation = lead_->generation();
  }
  return next;
}

// People and tools look for it. The run does not, and goes on without it.
void ShardServer::WriteAllAddresses() {
  const std::vector<std::string> shards = lead_->service()->AwaitShards();
  bool said = false;
  while (true) {
    const absl::Status written = lead_->WriteAddresses(address_, shards);
    if (written.ok()) return;
    if (!std::exchange(said, true)) {
      spdlog::warn("event=no_addresses error={}", LogValue(written.message()));
    }
    if (lead_->service()->AwaitOver(kWriteAddressesEvery)) return;
  }
}

void ShardServer::StopServing() {
  if (server_ == nullptr) return;
  listener_.Rest();
  restoring_.Stop();
  server_->Shutdown(FromNow(kShutdownGrace));
  exchange_.Shutdown();
  if (endpoint_ != nullptr) endpoint_->Shutdown();
  new_connections_.reset();
  port_->Parted();
  if (agent_ != nullptr) Log(exchange_.counters());
  agent_.reset();
  server_.reset();
}

void ShardServer::RequestStop(const std::string& reason) {
  if (lead_ != nullptr) {
    absl::MutexLock lock(&lead_mu_);
    if (!lead_closed_) lead_->service()->RequestStop(reason);
  } else {
    spdlog::info("event=signal reason={} waiting_for=\"the coordinator\"",
                 LogValue(reason));
    agent_->TellToEnd();
  }
}

absl::StatusOr<int64_t> ShardServer::RequestCheckpoint() {
  absl::MutexLock lock(&lead_mu_);
  if (lead_closed_) {
    return absl::UnavailableError("a generation of the run is over");
  }
  SLUICE_ASSIGN_OR_RETURN(const proto::CheckpointReply reply,
                          lead_->service()->OnRequestCheckpoint());
  return reply.version();
}

absl::StatusOr<proto::JobStatus> ShardServer::Status() {
  absl::MutexLock lock(&lead_mu_);
  if (final_status_.has_value()) return *final_status_;
  if (lead_closed_) {
    return absl::UnavailableError("a generation of the run is over");
  }
  return LeadStatus();
}

std::optional<proto::JobStatus> ShardServer::FinalStatus() {
  absl::MutexLock lock(&lead_mu_);
  return final_status_;
}

proto::JobStatus ShardServer::LeadStatus() {
  proto::JobStatus status = lead_->service()->OnGetStatus();
  status.set_insecure(security_.insecure());
  return status;
}

}  // namespace sluice
