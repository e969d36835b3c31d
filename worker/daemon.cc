#include "worker/daemon.h"

#include <unistd.h>

#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/status_macros.h"
#include "spdlog/sinks/stdout_color_sinks.h"
#include "spdlog/spdlog.h"

namespace sluice {
namespace {

// "host:pid", for other processes' logs.
std::string ProcessName() {
  char host[256] = {};
  if (gethostname(host, sizeof(host) - 1) != 0) return absl::StrCat(getpid());
  return absl::StrCat(host, ":", getpid());
}

}  // namespace

void AddDaemonFlags(CLI::App* app, DaemonFlags* flags) {
  app->add_option("--job", flags->job, "Job file (textproto)")->required();
  app->add_option("--set", flags->overrides,
                  "Overrides a field of the job: a.b=c; may be repeated")
      ->type_size(1)
      ->allow_extra_args(false);
  app->add_option("--coordinator", flags->coordinator,
                  "host:port of shard 0; default: the job's "
                  "cluster.coordinator");
  app->add_option("--log-level", flags->log_level,
                  "debug, info, warn or error; default info")
      ->check(CLI::IsMember({"debug", "info", "warn", "error"}));
}

absl::StatusOr<ResolvedJob> Prepare(const DaemonFlags& flags) {
  auto log = spdlog::stderr_color_mt("sluice");
  log->set_level(spdlog::level::from_str(flags.log_level));
  spdlog::set_default_logger(std::move(log));
  SLUICE_ASSIGN_OR_RETURN(ResolvedJob job, LoadJob(flags.job, flags.overrides));
  if (!flags.coordinator.empty()) {
    job.job.mutable_cluster()->set_coordinator(flags.coordinator);
  }
  if (job.job.cluster().coordinator().empty()) {
    return absl::InvalidArgumentError(
        "who is the coordinator? --coordinator=host:port or "
        "cluster.coordinator in the job says so");
  }
  return job;
}

CoordinatorClient::Options SessionOptions(const ResolvedJob& job,
                                          proto::Role role, int64_t id) {
  CoordinatorClient::Options options;
  options.address = job.job.cluster().coordinator();
  options.join.set_role(role);
  options.join.set_id(id);
  options.join.set_fingerprint(job.fingerprint);
  options.join.set_job(FormatJob(job.job));
  options.join.set_process(ProcessName());
  options.start_timeout = absl::Seconds(job.job.limits().start_timeout_s());
  options.rejoin_timeout = absl::Seconds(job.job.limits().rejoin_timeout_s());
  return options;
}

absl::StatusOr<std::unique_ptr<GrpcExchange>> OpenExchange(
    const ResolvedJob& job, const std::string& client,
    const proto::Welcome& welcome) {
  const auto& addresses = welcome.shard_addresses();
  if (addresses.size() != job.layout.shards()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the coordinator names ", addresses.size(),
                     " shards, expected ", job.layout.shards()));
  }
  const proto::Limits& limits = job.job.limits();
  GrpcExchange::Options options;
  options.client = client;
  options.chunk_bytes = limits.chunk_bytes();
  options.push_timeout = absl::Seconds(limits.task_deadline_s());
  options.rejoin_timeout = absl::Seconds(limits.rejoin_timeout_s());
  return std::make_unique<GrpcExchange>(
      &job.layout, std::vector<std::string>(addresses.begin(), addresses.end()),
      options);
}

void LeaveOnSignal::Joined(std::function<void(const std::string&)> leave) {
  absl::MutexLock lock(&mu_);
  leave_ = std::move(leave);
}

void LeaveOnSignal::OnSignal(const std::string& name) {
  std::function<void(const std::string&)> leave;
  {
    absl::MutexLock lock(&mu_);
    leave = leave_;
  }
  spdlog::info("stopping signal={} joined={}", name, leave != nullptr);
  if (leave == nullptr) {
    spdlog::shutdown();
    std::_Exit(EXIT_SUCCESS);
  }
  leave(absl::StrCat("stopped by ", name));
}

absl::Status RunOutcome(const std::optional<proto::Finish>& finish,
                        const absl::Status& worked,
                        const absl::Status& session) {
  if (finish.has_value()) {
    spdlog::info("run over reason=\"{}\" failure=\"{}\"", finish->reason(),
                 finish->failure());
    if (finish->failure().empty()) return absl::OkStatus();
    return absl::AbortedError(finish->failure());
  }
  SLUICE_RETURN_IF_ERROR(worked);
  return session;
}

}  // namespace sluice
