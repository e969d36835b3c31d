#include "worker/daemon.h"

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/process/exit_codes.h"
#include "common/process/process_name.h"
#include "common/rpc/channel_options.h"
#include "common/rpc/grpc_log.h"
#include "common/status_macros.h"
#include "common/telemetry/log_value.h"
#include "third_party/spdlog.h"
#include "worker/model/make_device.h"
#include "worker/task/cancel_token.h"

namespace sluice {

void AddDaemonFlags(CLI::App* app, DaemonFlags* flags) {
  app->add_option("--job", flags->job, "job file (textproto)")->required();
  app->add_option("--set", flags->overrides,
                  "override a field of the job, as sync.k=3; repeatable")
      ->allow_extra_args(false);
  app->add_option("--coordinator", flags->coordinator,
                  "host:port of shard 0. Default: cluster.coordinator");
  app->add_option("--log", flags->log,
                  "file to append the log to, opened anew on SIGHUP. Default: "
                  "stderr");
  app->add_flag("--debug", flags->debug, "log every task");
  app->add_option("--http", flags->http,
                  "host:port on which this process shows itself to Prometheus "
                  "(/metrics) and to probes (/healthz, /readyz): in plain "
                  "text, to read only, to whoever reaches it. Default: none");
  app->add_flag("--yield", flags->yield,
                "on SIGTERM end with 75, since this process is to be started "
                "again, perhaps elsewhere. Default: end with 0, for good");
  AddTlsFlags(app, &flags->tls);
}

absl::StatusOr<ResolvedJob> LoadDaemonJob(const DaemonFlags& flags) {
  std::vector<std::string> overrides = flags.overrides;
  if (!flags.coordinator.empty()) {  // Checked like any other address.
    overrides.push_back(
        absl::StrCat("cluster.coordinator=", flags.coordinator));
  }
  SLUICE_ASSIGN_OR_RETURN(ResolvedJob job, LoadJob(flags.job, overrides));
  if (job.job.cluster().coordinator().empty()) {
    return absl::InvalidArgumentError(
        "cluster.coordinator: is not set, and there is no --coordinator");
  }
  return job;
}

absl::StatusOr<TransportSecurity> OpenSecurity(const DaemonFlags& flags,
                                               const ResolvedJob& job,
                                               TlsRole role) {
  LogGrpcErrors();
  SLUICE_ASSIGN_OR_RETURN(
      TransportSecurity security,
      TransportSecurity::Open(flags.tls, job.job.name(), role));
  SLUICE_RETURN_IF_ERROR(
      security.Allow("--coordinator", job.job.cluster().coordinator()));
  return security;
}

int ExitCode(const absl::Status& status) {
  if (status.ok()) return 0;
  if (absl::IsCancelled(status) && AsksForRestart(status)) {
    spdlog::info("event=yielded reason={}", LogValue(status.message()));
    return kExitRestart;
  }
  spdlog::error("event=failed error={}", LogValue(status.message()));
  return AsksForRestart(status) ? kExitRestart : kExitFailed;
}

int UsageExitCode(const absl::Status& status) {
  spdlog::error("event=failed error={}", LogValue(status.message()));
  return absl::IsUnavailable(status) ? kExitRestart : kExitUsage;
}

int PortExitCode(const absl::Status& status) {
  return absl::IsInvalidArgument(status) ? UsageExitCode(status)
                                         : ExitCode(status);
}

// The rest of a Join is small.
static_assert(kMostJobTextBytes + (int64_t{1} << 20) <= kMaxMessageBytes);

CoordinatorClient::Options SessionOptions(const ResolvedJob& job,
                                          const TransportSecurity& security,
                                          proto::Role role, int64_t id,
                                          bool rejoins) {
  CoordinatorClient::Options options;
  options.credentials = security.ToLead();
  options.rejoins = rejoins;
  options.address = job.job.cluster().coordinator();
  options.join.set_role(role);
  options.join.set_id(id);
  options.join.set_fingerprint(job.fingerprint);
  options.join.set_job(FormatJob(job.job));
  options.join.set_process(ProcessName());
  options.join.set_instruction_set(OwnInstructionSet(job.job));
  options.start_timeout = absl::Seconds(job.job.limits().start_timeout_s());
  options.rejoin_timeout = absl::Seconds(job.job.limits().rejoin_timeout_s());
  return options;
}

absl::StatusOr<std::unique_ptr<GrpcExchange>> OpenExchange(
    const ResolvedJob& job, const TransportSecurity& security, WireTypes types,
    const proto::Welcome& welcome) {
  const auto& addresses = welcome.shard_addresses();
  if (addresses.size() != job.job.cluster().shards()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the coordinator names ", addresses.size(),
                     " shards, expected ", job.job.cluster().shards()));
  }
  GrpcExchange::Options options;
  for (const std::string& address : addresses) {
    SLUICE_RETURN_IF_ERROR(security.Allow("the address of a shard", address));
    if (WindowTo(address, security.tls()) == Window::kRoundTrip) {
      options.window = Window::kRoundTrip;
    }
  }
  const proto::Limits& limits = job.job.limits();
  options.credentials = security.ToShards();
  options.chunk_bytes = limits.chunk_bytes();
  options.types = types;
  options.limits = {.stall = absl::Seconds(limits.transfer_stall_s()),
                    .partition = absl::Seconds(limits.partition_timeout_s())};
  return std::make_unique<GrpcExchange>(
      &job.layout, std::vector<std::string>(addresses.begin(), addresses.end()),
      options);
}

absl::Status AwaitReachable(const ResolvedJob& job, bool rejoins,
                            const std::function<bool()>& stopped,
                            GrpcExchange* exchange) {
  const proto::Limits& limits = job.job.limits();
  return rejoins
             ? exchange->AwaitReachable(
                   absl::Seconds(limits.partition_timeout_s()),
                   "limits.partition_timeout_s", stopped)
             : exchange->AwaitReachable(absl::Seconds(limits.start_timeout_s()),
                                        "limits.start_timeout_s", stopped);
}

void ShareMemory(const ResolvedJob& job, const SharedMemory* gradient,
                 GrpcExchange* exchange) {
  if (job.job.wire().shared_memory() != proto::Wire::AUTO) return;
  std::vector<const SharedMemory*> gradients;
  if (gradient != nullptr) gradients.push_back(gradient);
  exchange->ShareMemory(gradients);
}

void TellUnreached(std::function<std::optional<UnreachedShard>()> unreached,
                   CoordinatorClient* client) {
  client->TellUnreached([unreached = std::move(unreached)]()
                            -> std::optional<CoordinatorClient::Unreached> {
    const auto shard = unreached();
    if (!shard.has_value()) return std::nullopt;
    return CoordinatorClient::Unreached{shard->name, shard->since};
  });
}

absl::Status LeaveUnlessOk(absl::Status status, CoordinatorClient* client) {
  if (!status.ok()) client->Leave(status.message());
  return status;
}

// A signal comes on a thread of its own, at any time, and `leave` uses the
// session of the present life. So Parted, which comes before that session ends,
// waits for a call that is under way:
//
//   Joined(leave)    SIGTERM: leave("stopped by SIGTERM") begins
//   Parted           waits until it has returned; true: leave no more lives
//
//   Parted           false: another life may follow
//   SIGTERM          nobody knows this process now: it ends at once
void LeaveOnSignal::Joined(std::function<void(const std::string&)> leave,
                           int slot) {
  std::string left;
  {
    absl::MutexLock lock(&mu_);
    left = left_;
    if (left.empty()) leave_[slot] = leave;
  }
  if (!left.empty()) leave(left);
}

bool LeaveOnSignal::Parted(int slot) {
  absl::MutexLock lock(&mu_);
  leave_.erase(slot);
  mu_.Await(absl::Condition(this, &LeaveOnSignal::NotLeaving));
  return !left_.empty();
}

bool LeaveOnSignal::left() {
  absl::MutexLock lock(&mu_);
  return !left_.empty();
}

void LeaveOnSignal::OnSignal(const std::string& name) {
  const std::string why = absl::StrCat("stopped by ", name);
  std::map<int, std::function<void(const std::string&)>> leave;
  {
    absl::MutexLock lock(&mu_);
    leave = leave_;
    leaving_ = !leave.empty();
    if (leaving_) left_ = why;
  }
  spdlog::info("event=stopping signal={} joined={}", name, !leave.empty());
  if (leave.empty()) {
    spdlog::shutdown();
    std::_Exit(yields_ ? kExitRestart : EXIT_SUCCESS);
  }
  for (const auto& [slot, call] : leave) call(why);
  absl::MutexLock lock(&mu_);
  leaving_ = false;
}

void LogEndOfLife(const LifeEnd& end) {
  const absl::Status& why = end.worked.ok() ? end.session : end.worked;
  spdlog::warn("event=life_over reason={}", LogValue(why.message()));
}

void LogNewLife(const proto::Welcome& welcome) {
  spdlog::warn("event=new_life incarnation={} generation={}",
               welcome.incarnation(), welcome.generation());
}

absl::Status MakeAgain(
    const std::function<absl::StatusOr<ComputeContext>()>& make,
    RejoinPolicy* rejoin, ComputeContext* context) {
  int64_t restarts = context->restarts;
  while (true) {
    CancelToken().WaitFor(rejoin->pause());
    context->gradient.reset();  // Before there are two of it.
    context->measure.reset();
    absl::StatusOr<ComputeContext> made = make();
    ++restarts;
    if (made.ok()) {
      *context = *std::move(made);
      context->restarts = restarts;
      return absl::OkStatus();
    }
    const LifeEnd end = {.worked = made.status(), .gradient_broken = true};
    if (!rejoin->Rejoins(end)) return made.status();
    LogEndOfLife(end);
  }
}

namespace {

// Where a server has refused this process's certificate, or its key, a process
// that is started again may be let in: it reads its files as they are then, and
// says what is wrong with them.
absl::Status OfRefusal(const absl::Status& status) {
  const bool refused =
      absl::IsUnauthenticated(status) || absl::IsPermissionDenied(status);
  return refused ? AskForRestart(status) : status;
}

}  // namespace

bool EndedWell(const LifeEnd& last) {
  return last.finish.has_value() && last.finish->failure().empty();
}

absl::Status RunOutcome(const LifeEnd& last, bool yields) {
  const absl::Status left =
      yields ? AskForRestart(absl::CancelledError(
                   "stopped by a signal, to be started again"))
             : absl::OkStatus();
  if (last.finish.has_value()) {
    spdlog::info("event=run_over reason={}",
                 LogValue(absl::StrCat(
                     last.late ? "training was over before it joined: " : "",
                     last.finish->reason())));
    if (last.finish->failure().empty()) return absl::OkStatus();
    return absl::AbortedError(last.finish->failure());
  }
  if (last.told_to_leave && (last.gradient_broken || last.link_broken)) {
    LogEndOfLife(last);  // What it waited for did not let go.
    return left;
  }
  SLUICE_RETURN_IF_ERROR(OfRefusal(last.worked));
  return last.told_to_leave ? left : OfRefusal(last.session);
}

}  // namespace sluice
