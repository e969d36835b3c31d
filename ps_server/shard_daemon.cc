#include "ps_server/shard_daemon.h"

#include <utility>

#include "common/clock.h"
#include "common/status_macros.h"
#include "spdlog/spdlog.h"

namespace sluice {
namespace {

// The system closes the port of the life before a little after that has let go
// of it.
constexpr absl::Duration kPortPatience = absl::Seconds(2);
constexpr absl::Duration kPortPause = absl::Milliseconds(20);

}  // namespace

absl::Status ShardDaemon::Run() {
  SLUICE_ASSIGN_OR_RETURN(InitialWeights weights, InitialWeights::Open(job_));
  weights_ = std::make_shared<const InitialWeights>(std::move(weights));
  std::optional<EarlierLife> earlier;
  while (true) {
    SLUICE_ASSIGN_OR_RETURN(earlier, RunGeneration(earlier));
    if (!earlier.has_value()) return absl::OkStatus();
    spdlog::warn("event=next_generation reason=\"{}\"", earlier->reason);
  }
}

absl::StatusOr<std::optional<EarlierLife>> ShardDaemon::RunGeneration(
    const std::optional<EarlierLife>& earlier) {
  SLUICE_ASSIGN_OR_RETURN(const std::unique_ptr<ShardServer> server,
                          Start(earlier));
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

absl::StatusOr<std::unique_ptr<ShardServer>> ShardDaemon::Start(
    const std::optional<EarlierLife>& earlier) {
  const absl::Time until = Clock::Real()->Now() + kPortPatience;
  while (true) {
    auto server = ShardServer::Start(flags_, job_, weights_, earlier);
    if (!earlier.has_value() || !absl::IsUnavailable(server.status()) ||
        Clock::Real()->Now() >= until) {
      return server;
    }
    absl::MutexLock lock(&mu_);
    mu_.AwaitWithTimeout(absl::Condition(this, &ShardDaemon::Stopped),
                         kPortPause);
  }
}

void ShardDaemon::RequestStop(const std::string& reason) {
  absl::MutexLock lock(&mu_);
  stop_ = reason;
  if (server_ != nullptr) server_->RequestStop(reason);
}

}  // namespace sluice
