// The worker: computes gradients for the coordinator that the job names.
// Exit codes: common/exit_codes.h.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/any_number.h"
#include "common/counter_table.h"
#include "common/daemon_log.h"
#include "common/delay_model.h"
#include "common/descriptor_limit.h"
#include "common/file_mode.h"
#include "common/http/process_port.h"
#include "common/ids.h"
#include "common/model_command.h"
#include "common/named_thread.h"
#include "common/resolved_job.h"
#include "common/rpc/malloc_tuning.h"
#include "common/rpc/polling.h"
#include "common/session/coordinator_client.h"
#include "common/shared_counters.h"
#include "common/status_macros.h"
#include "common/stop_signal.h"
#include "common/tls/transport_security.h"
#include "common/wire/job_wire_types.h"
#include "spdlog/spdlog.h"
#include "worker/cancel_token.h"
#include "worker/compute_context.h"
#include "worker/daemon.h"
#include "worker/rejoin_policy.h"
#include "worker/task_inbox.h"
#include "worker/timeline.h"
#include "worker/trainer.h"
#include "worker/worker_counters.h"
#include "worker/worker_loop.h"

namespace sluice {
namespace {

constexpr char kAny[] = "any";

// What is wrong with the value of --worker; empty: nothing.
std::string CheckNumber(const std::string& number) {
  int64_t id = 0;
  if (number == kAny || (absl::SimpleAtoi(number, &id) && id >= 0)) return "";
  return absl::StrCat("expected a number from 0, or any; got \"", number, "\"");
}

// What --worker says; nullopt: any. kFailedPrecondition: any will not do.
absl::StatusOr<std::optional<WorkerId>> ParseNumber(
    const std::string& number, const proto::Job& job,
    const std::string& timeline) {
  int64_t id = 0;
  if (absl::SimpleAtoi(number, &id)) return WorkerId(id);
  SLUICE_RETURN_IF_ERROR(CheckAnyNumber(job));
  if (timeline.empty()) return std::nullopt;
  return absl::FailedPreconditionError(
      "--timeline: its tracks are named after the worker's number: start it "
      "with --worker=N instead of --worker=any");
}

// All that a worker counts.
WorkerCounters CountersOf(const SharedCounters<WorkerCounters>& counters,
                          const GrpcExchange& exchange) {
  WorkerCounters all = counters.Get();
  all.repeated_calls = exchange.repeated_calls_total();
  return all;
}

// For heartbeats and for the process's port.
CounterMap Counted(const WorkerCounters& counters,
                   const TransportSecurity& security) {
  CounterMap counted;
  PutCounters(kWorkerCounters, counters, &counted);
  security.CountCertificate(&counted);
  return counted;
}

// From one Join to the end of that session. An error: it did not come to that.
// `number` becomes that under which the worker was welcomed.
absl::StatusOr<LifeEnd> Live(const ResolvedJob& job,
                             const TransportSecurity& security,
                             const ComputeContext& context,
                             const Trainer::Options& options,
                             CoordinatorClient::Options session,
                             LeaveOnSignal* leave, ProcessPort* port,
                             Timeline* timeline, int64_t* number) {
  SharedCounters<WorkerCounters> counters;
  counters.Set(&WorkerCounters::model_restarts, context.restarts);
  TaskInbox inbox(&counters);
  std::unique_ptr<GrpcExchange> exchange;
  const bool rejoins = session.rejoins;
  session.on_message = [&](const proto::FromCoordinator& message) {
    inbox.Receive(message);
  };
  SLUICE_ASSIGN_OR_RETURN(const std::unique_ptr<CoordinatorClient> client,
                          CoordinatorClient::Connect(std::move(session)));
  if (inbox.finish().has_value()) {
    return LifeEnd{
        .finish = inbox.finish(), .late = true, .session = client->Wait()};
  }
  const proto::Welcome welcome = client->welcome();
  *number = welcome.id();
  if (rejoins) LogNewLife(welcome);
  spdlog::info("event=welcome worker={}", *number);
  SLUICE_ASSIGN_OR_RETURN(
      exchange, OpenExchange(job, security, absl::StrCat("worker ", *number),
                             JobWireTypes(job.job), welcome));
  TellUnreached(exchange.get(), client.get());
  const auto count = [&counters, &security, &exchange = *exchange] {
    return Counted(CountersOf(counters, exchange), security);
  };
  client->TellCounters(count);
  port->Joined(count);
  inbox.set_wake([&] {
    exchange->Wake();
    context.gradient->Wake();
  });
  leave->Joined([&](const std::string& reason) {
    inbox.Close(reason);
    context.gradient->Abandon();
    client->Leave(reason);
  });

  Trainer trainer(options, context.gradient.get(), exchange.get());
  WorkerLoop loop(
      job.job.cluster().coordinator(), &inbox, &trainer, &counters,
      [&](proto::ToCoordinator message) { client->Send(std::move(message)); },
      timeline);
  LifeEnd end;
  std::thread compute = StartThread("compute", [&] {
    context.Enter();
    end.worked = AwaitReachable(
        job, rejoins, [&] { return inbox.closed(); }, exchange.get());
    if (end.worked.ok()) end.worked = loop.Run();
    if (!end.worked.ok()) client->Leave(std::string(end.worked.message()));
  });
  end.session = client->Wait();
  inbox.Close("the session has ended");
  if (inbox.finish().has_value()) context.gradient->Abandon();
  compute.join();
  end.told_to_leave = leave->Parted();
  port->Parted();
  const WorkerCounters counted = CountersOf(counters, *exchange);
  spdlog::info("event=done {}", CountersText(kWorkerCounters, counted));
  end.finish = inbox.finish();
  end.delivered = counted.gradients_delivered > 0;
  end.gradient_broken = context.gradient->broken();
  return end;
}

// Works for the job's coordinator as worker `given`, or as one that it gives a
// number to, until the run is over, and adds what it does to the file
// `timeline_path` (timeline.h), unless that is empty. `command` is that of the
// model process, if the job has one. OK: it reached its end, or this process
// was told to stop. Else says what went wrong, naming the culprit. Blocks.
// REQUIRES: StopSignal::Block was called.
absl::Status RunWorker(const ResolvedJob& job,
                       const TransportSecurity& security,
                       std::optional<WorkerId> given, ProcessPort* port,
                       const std::string& timeline_path,
                       const std::vector<std::string>& command) {
  const WorkerId id = given.value_or(WorkerId(0));  // CheckAnyNumber.
  std::unique_ptr<Timeline> timeline;
  if (!timeline_path.empty()) {
    SLUICE_ASSIGN_OR_RETURN(timeline, Timeline::Open(timeline_path, id));
  }
  SLUICE_ASSIGN_OR_RETURN(ComputeContext context,
                          MakeWorkerContext(job, id, command));
  spdlog::info("event=ready worker={} device=\"{}\" parameters={}",
               given.has_value() ? absl::StrCat(id.value()) : kAny,
               context.DeviceName(), job.layout.size());
  Trainer::Options options;
  SLUICE_ASSIGN_OR_RETURN(options.delay, ComputeDelay::Create(job.job));
  LeaveOnSignal leave;
  CoordinatorClient::Options session = SessionOptions(
      job, security, proto::WORKER, id.value(), /*rejoins=*/false);
  session.join.set_any_number(!given.has_value());
  for (auto& [name, value] : context.Inputs()) {  // Once: it takes time.
    (*session.join.mutable_inputs())[name] = value;
  }
  RejoinPolicy rejoin;
  for (;; session.rejoins = true) {
    int64_t number = session.join.id();
    SLUICE_ASSIGN_OR_RETURN(const LifeEnd end,
                            Live(job, security, context, options, session,
                                 &leave, port, timeline.get(), &number));
    session.join.set_id(number);  // The next life keeps it, if it can.
    if (!rejoin.Rejoins(end)) return RunOutcome(end);
    LogEndOfLife(end);
    if (!end.gradient_broken) continue;
    CancelToken().WaitFor(rejoin.pause());
    const int64_t restarts = context.restarts + 1;
    context.gradient.reset();  // Before there are two of it.
    SLUICE_ASSIGN_OR_RETURN(context, MakeWorkerContext(job, id, command));
    context.restarts = restarts;
  }
}

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) {
  sluice::TuneMallocForChunks();
  sluice::PollQueuesApart();
  sluice::RaiseDescriptorLimit();
  sluice::StopSignal::Block();

  CLI::App app("Computes gradients for the coordinator of a job.", "worker");
  sluice::DaemonFlags flags;
  sluice::AddDaemonFlags(&app, &flags);
  std::string number;
  app.add_option("--worker", number,
                 "number of this worker, from 0; any: the lead gives it the "
                 "lowest that no living worker has")
      ->required()
      ->check(sluice::CheckNumber);
  std::string timeline;
  app.add_option("--timeline", timeline,
                 "file to add what this worker does to, as a Chrome trace");
  std::vector<std::string> command;
  sluice::AddModelCommand(&app, &command);
  if (const auto code = sluice::ParseFlags(argc, argv, &app)) return *code;
  const sluice::DaemonLog log(absl::StrCat("worker-", number), flags.log,
                              flags.debug);

  const auto job = sluice::LoadDaemonJob(flags);
  if (!job.ok()) return sluice::UsageExitCode(job.status());
  sluice::LetRead(job->job.output().mode());
  const auto agrees = sluice::CheckModelCommand(job->job, command);
  if (!agrees.ok()) return sluice::UsageExitCode(agrees);
  const auto given = sluice::ParseNumber(number, job->job, timeline);
  if (!given.ok()) return sluice::UsageExitCode(given.status());
  const auto security =
      sluice::OpenSecurity(flags, *job, sluice::TlsRole::kWorker);
  if (!security.ok()) return sluice::UsageExitCode(security.status());
  const auto port = sluice::ProcessPort::Open(flags.http, "worker", number);
  if (!port.ok()) return sluice::UsageExitCode(port.status());
  return sluice::ExitCode(sluice::RunWorker(*job, *security, *given,
                                            port->get(), timeline, command));
}
