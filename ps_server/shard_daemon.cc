#include "ps_server/shard_daemon.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/host_port.h"
#include "common/status_macros.h"
#include "ps_server/addresses.h"
#include "ps_server/live/live_pages.h"
#include "spdlog/spdlog.h"

namespace sluice {

absl::Status ShardDaemon::Run() {
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
      listener_,
      Listener::Open(listen, ConnectionLimits::ForJob(
                                 MostWorkers(cluster) + cluster.shards() + 1,
                                 job_.job.limits().chunk_bytes())));
  SLUICE_RETURN_IF_ERROR(OpenPages());
  std::optional<EarlierLife> earlier;
  while (true) {
    SLUICE_ASSIGN_OR_RETURN(earlier, RunGeneration(earlier));
    if (!earlier.has_value()) return absl::OkStatus();
    spdlog::warn("event=next_generation reason=\"{}\"", earlier->reason);
  }
}

absl::Status ShardDaemon::OpenPages() {
  if (flags_.http.empty()) return absl::OkStatus();
  if (flags_.shard != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--http: expected with --shard=0, which knows of the whole cluster, is "
        "with --shard=",
        flags_.shard));
  }
  const absl::StatusOr<HostPort> at = ParseHostPort(flags_.http);
  if (!at.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--http: ", at.status().message()));
  }
  SLUICE_ASSIGN_OR_RETURN(
      pages_,
      HttpPort::Open(flags_.http, LivePages([this] { return Status(); },
                                            RunFolderOf(flags_, job_.job))));
  spdlog::info("event=pages address={}",
               HostPort{at->host, pages_->port()}.ToString());
  return absl::OkStatus();
}

absl::StatusOr<proto::JobStatus> ShardDaemon::Status() {
  absl::MutexLock lock(&mu_);
  if (server_ != nullptr) return server_->Status();
  return absl::UnavailableError("no generation of the run has begun");
}

absl::StatusOr<std::optional<EarlierLife>> ShardDaemon::RunGeneration(
    const std::optional<EarlierLife>& earlier) {
  SLUICE_ASSIGN_OR_RETURN(
      const std::unique_ptr<ShardServer> server,
      ShardServer::Start(flags_, job_, weights_, earlier, security_,
                         listener_.get(), &pause_));
  {
    absl::MutexLock lock(&mu_);
    server_ = server.get();
    if (stop_.has_value()) server_->RequestStop(*stop_);
  }
  auto next = server->Run();
  absl::MutexLock lock(&mu_);
  server_ = nullptr;
  return next;
}

void ShardDaemon::RequestStop(const std::string& reason) {
  pause_.Stop();
  absl::MutexLock lock(&mu_);
  stop_ = reason;
  if (server_ != nullptr) server_->RequestStop(reason);
}

}  // namespace sluice
