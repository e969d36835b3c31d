// A life of the process:
//
//   generation 1   a ShardServer, until the run is over or cannot go on
//   generation 2   another one on the same port, from the newest checkpoint
//   Linger         the lead's pages stay for a while, with the final status
//
// Whoever asks for the status gets that of server_ while there is one, else the
// last one's final status; both change under mu_.
#include "ps_server/shard_daemon.h"

#include <cstdlib>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/clock.h"
#include "common/job/group.h"
#include "common/job/job_counts.h"
#include "common/process/exit_codes.h"
#include "common/rpc/grpc_log.h"
#include "common/status_macros.h"
#include "common/telemetry/log_value.h"
#include "ps_server/addresses.h"
#include "ps_server/live/live_pages.h"
#include "third_party/spdlog.h"

namespace sluice {
namespace {

// Kubernetes kills a pod a minute or two after it was told to end.
constexpr absl::Duration kStoreFor = absl::Seconds(30);

}  // namespace

absl::Status ShardDaemon::Run() {
  LogGrpcErrors();
  SLUICE_ASSIGN_OR_RETURN(
      security_, TransportSecurity::Open(
                     flags_.tls, job_.job.name(),
                     flags_.shard == 0 ? TlsRole::kLead : TlsRole::kShard));
  SLUICE_ASSIGN_OR_RETURN(InitialWeights weights, InitialWeights::Open(job_));
  weights_ = std::make_shared<const InitialWeights>(std::move(weights));
  // Whoever cannot have the port must not end a generation that is well.
  SLUICE_ASSIGN_OR_RETURN(const std::string listen,
                          ListenAddress(flags_, job_.job));
  SLUICE_RETURN_IF_ERROR(security_.Allow("--listen", listen));
  if (flags_.shard != 0) {
    SLUICE_ASSIGN_OR_RETURN(const std::string lead,
                            CoordinatorAddress(flags_, job_.job));
    SLUICE_RETURN_IF_ERROR(security_.Allow("--coordinator", lead));
  }
  const proto::Cluster& cluster = job_.job.cluster();
  SLUICE_ASSIGN_OR_RETURN(
      listener_, Listener::Open(listen, ConnectionLimits::ForJob(
                                            (MostWorkers(cluster) + 1) *
                                                    StageCount(job_.job) +
                                                cluster.shards(),
                                            job_.job.limits().chunk_bytes())));
  SLUICE_RETURN_IF_ERROR(OpenPages());
  std::optional<EarlierLife> earlier;
  while (true) {
    auto next = RunGeneration(earlier);
    // The run has reached its end before (FindRecovery).
    if (absl::IsOutOfRange(next.status())) return absl::OkStatus();
    if (!next.ok() || !next->has_value()) {
      Linger();
      return next.status();
    }
    earlier = *std::move(next);
    spdlog::warn("event=next_generation reason={}", LogValue(earlier->reason));
  }
}

absl::Status ShardDaemon::OpenPages() {
  const bool lead = flags_.shard == 0;
  SLUICE_ASSIGN_OR_RETURN(port_,
                          ProcessPort::Open(lead ? "" : flags_.http, "shard",
                                            {absl::StrCat(flags_.shard)}));
  if (!lead || flags_.http.empty()) return absl::OkStatus();
  SLUICE_ASSIGN_OR_RETURN(
      pages_,
      OpenHttpFlag(flags_.http, LivePages([this] { return Status(); },
                                          RunFolderOf(flags_, job_.job))));
  return absl::OkStatus();
}

void ShardDaemon::Linger() {
  {
    absl::MutexLock lock(&mu_);
    if (!final_status_.has_value()) return;
  }
  if (pages_ == nullptr || flags_.http_linger_s <= 0) return;
  listener_.reset();  // Or who comes late would wait here in vain.
  spdlog::info("event=lingering seconds={}", flags_.http_linger_s);
  pause_.For(absl::Seconds(flags_.http_linger_s));
}

absl::StatusOr<proto::JobStatus> ShardDaemon::Status() {
  absl::MutexLock lock(&mu_);
  if (server_ != nullptr) return server_->Status();
  if (final_status_.has_value()) return *final_status_;
  return absl::UnavailableError("no generation of the run has begun");
}

absl::StatusOr<std::optional<EarlierLife>> ShardDaemon::RunGeneration(
    const std::optional<EarlierLife>& earlier) {
  auto started = ShardServer::Start(flags_, job_, weights_, earlier, security_,
                                    listener_.get(), &pause_, port_.get());
  if (AsksForRestart(started.status())) {
    absl::MutexLock lock(&mu_);
    if (stop_.has_value()) return std::nullopt;  // While it waited for a disk.
  }
  SLUICE_ASSIGN_OR_RETURN(const std::unique_ptr<ShardServer> server,
                          std::move(started));
  {
    absl::MutexLock lock(&mu_);
    server_ = server.get();
    if (stop_.has_value()) server_->RequestStop(*stop_);
  }
  auto next = server->Run();
  absl::MutexLock lock(&mu_);
  final_status_ = server_->FinalStatus();
  server_ = nullptr;
  if (stop_.has_value() && AsksForRestart(next.status())) {
    spdlog::warn("event=not_awaited reason={}",
                 LogValue(next.status().message()));
    return std::nullopt;
  }
  return next;
}

void ShardDaemon::RequestStop(const std::string& reason) {
  pause_.Stop();
  absl::MutexLock lock(&mu_);
  stop_ = reason;
  if (server_ != nullptr) server_->RequestStop(reason);
}

absl::StatusOr<int64_t> ShardDaemon::RequestCheckpoint() {
  absl::MutexLock lock(&mu_);
  if (server_ == nullptr) {
    return absl::UnavailableError("no generation of the run has begun");
  }
  return server_->RequestCheckpoint();
}

absl::Status ShardDaemon::StoreNext() {
  const absl::Time begin = Clock::Real()->Now();
  absl::StatusOr<int64_t> version = RequestCheckpoint();
  while (Clock::Real()->Now() - begin < kStoreFor) {
    if (version.ok()) {
      SLUICE_ASSIGN_OR_RETURN(const proto::JobStatus status, Status());
      if (status.checkpoint().newest_version() >= *version) {
        return absl::OkStatus();
      }
    } else if (!absl::IsUnavailable(version.status())) {
      break;
    }
    pause_.For(absl::Milliseconds(50));
    // Another one was being written, or a recovery was under way.
    if (!version.ok()) version = RequestCheckpoint();
  }
  SLUICE_RETURN_IF_ERROR(version.status());
  return absl::DeadlineExceededError(
      absl::StrCat("version ", *version, " was not written within ",
                   absl::FormatDuration(kStoreFor)));
}

void ShardDaemon::Yield(const std::string& signal) {
  {
    absl::MutexLock lock(&mu_);
    if (final_status_.has_value()) return pause_.Stop();
  }
  spdlog::info("event=yielding signal={}", signal);
  if (flags_.shard == 0) {
    const absl::Status stored = StoreNext();
    if (!stored.ok()) {
      spdlog::warn("event=not_stored reason={}", LogValue(stored.message()));
    }
  }
  spdlog::shutdown();
  std::_Exit(kExitRestart);
}

}  // namespace sluice
