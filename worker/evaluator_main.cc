// The evaluator: measures pinned versions on the test split and saves the
// final weights. Exit codes: common/process/exit_codes.h.

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/files/file_mode.h"
#include "common/files/file_operations.h"
#include "common/http/process_port.h"
#include "common/job/model_command.h"
#include "common/job/resolved_job.h"
#include "common/job/stage_plan.h"
#include "common/process/command_line.h"
#include "common/process/descriptor_limit.h"
#include "common/process/lock_order.h"
#include "common/process/named_thread.h"
#include "common/process/process_setup.h"
#include "common/process/stop_signal.h"
#include "common/rpc/malloc_tuning.h"
#include "common/rpc/polling.h"
#include "common/session/coordinator_client.h"
#include "common/status_macros.h"
#include "common/telemetry/daemon_log.h"
#include "common/telemetry/log_value.h"
#include "common/tls/transport_security.h"
#include "common/wire/float_type.h"
#include "third_party/spdlog.h"
#include "worker/compute/compute_context.h"
#include "worker/daemon.h"
#include "worker/evaluator.h"
#include "worker/rejoin_policy.h"
#include "worker/task/cancel_token.h"
#include "worker/task/mailbox.h"

namespace sluice {
namespace {

// Longer than the time between two evaluations of a small job, so that a line
// means something.
constexpr absl::Duration kLogEvery = absl::Seconds(10);

// Where the final version is written, in a folder that is made if it is not
// there; empty: nowhere. Errors are the file system's.
absl::StatusOr<std::string> WeightsPath(const ResolvedJob& job,
                                        const std::string& run_dir) {
  const std::string& folder =
      run_dir.empty() ? job.job.output().run_dir() : run_dir;
  if (folder.empty()) {
    spdlog::warn(
        "event=final_weights_go_nowhere reason=\"neither --run-dir nor "
        "output.run_dir names a folder for weights.safetensors\"");
    return "";
  }
  SLUICE_RETURN_IF_ERROR(MakeFolders(folder));
  return absl::StrCat(folder, "/weights.safetensors");
}

void LogAnswer(const proto::Evaluated& answer) {
  if (!answer.error().empty()) {
    spdlog::warn("event=evaluation_failed version={} error={}",
                 answer.version(), LogValue(answer.error()));
    return;
  }
  if (answer.samples() == 0) {
    spdlog::info("event=saved version={}", answer.version());
    return;
  }
  spdlog::info("event=evaluated version={} loss={:.6f} accuracy={} samples={}",
               answer.version(), answer.loss(),
               answer.has_accuracy() ? absl::StrCat(answer.accuracy()) : "none",
               answer.samples());
}

// Answers one request after the other until the run is over, or a shard is
// lost: says so in `*end`, or nothing when the session was lost first.
void Serve(Mailbox<proto::FromCoordinator>* mailbox,
           const std::function<absl::StatusOr<proto::Evaluated>(
               const proto::Evaluate&)>& evaluate,
           const std::function<void(proto::ToCoordinator)>& send,
           LifeEnd* end) {
  while (true) {
    const auto message = mailbox->Take(kLogEvery);
    if (!message.has_value()) {
      if (mailbox->closed()) return;
      spdlog::debug("event=waiting for=evaluation from=coordinator");
      continue;
    }
    if (message->has_finish()) {
      end->finish = message->finish();
      return;
    }
    if (!message->has_evaluate()) continue;
    absl::StatusOr<proto::Evaluated> answer = evaluate(message->evaluate());
    if (absl::IsAborted(answer.status())) return;  // With the session.
    end->worked = answer.status();
    if (!answer.ok()) return;
    LogAnswer(*answer);
    proto::ToCoordinator frame;
    *frame.mutable_evaluated() = *std::move(answer);
    send(std::move(frame));
    end->delivered = true;
  }
}

// The Finish among the messages that are left, if there is one.
std::optional<proto::Finish> TakeFinish(
    Mailbox<proto::FromCoordinator>* mailbox) {
  while (const auto left = mailbox->Take(absl::ZeroDuration())) {
    if (left->has_finish()) return left->finish();
  }
  return std::nullopt;
}

// Evaluates. A model process that fails in it ends this life, so that another
// one is started and asked again; where `*last_try`, which is then unset, the
// evaluation has failed.
absl::StatusOr<proto::Evaluated> Evaluate(const proto::Evaluate& request,
                                          Generation generation,
                                          const CancelToken& over,
                                          bool* last_try,
                                          const VersionMeasure& measure,
                                          Evaluator* evaluator) {
  absl::StatusOr<proto::Evaluated> answer =
      evaluator->Run(request, generation, over);
  if (answer.ok() || !measure.broken() || !*last_try) return answer;
  *last_try = false;
  proto::Evaluated failed;
  failed.set_version(request.version());
  failed.set_error(std::string(answer.status().message()));
  return failed;
}

// For heartbeats and for the process's port.
CounterMap Counted(const TransportSecurity& security) {
  CounterMap counted;
  security.CountCertificate(&counted);
  return counted;
}

// An exchange for each part of the flat vector that the measure holds at a
// time.
class PartExchanges {
 public:
  absl::Status Open(const ResolvedJob& job, int parts,
                    const TransportSecurity& security,
                    const proto::Welcome& welcome) {
    for (int part = 0; part < parts; ++part) {
      jobs_.push_back(std::make_unique<ResolvedJob>(
          parts == 1 ? job : JobOfStage(job, part)));
      SLUICE_ASSIGN_OR_RETURN(
          exchanges_.emplace_back(),
          OpenExchange(*jobs_.back(), security, WireTypes(), welcome));
    }
    return absl::OkStatus();
  }

  // Of all shards that do not answer, the one that has not for longest.
  std::optional<UnreachedShard> unreached() const {
    std::optional<UnreachedShard> longest;
    for (const auto& exchange : exchanges_) {
      longest = LongerUnreached(longest, exchange->unreached());
    }
    return longest;
  }
  std::vector<Exchange*> all() const {
    std::vector<Exchange*> all;
    for (const auto& exchange : exchanges_) all.push_back(exchange.get());
    return all;
  }
  absl::Status AwaitReachable(bool rejoins,
                              const std::function<bool()>& stopped) const {
    for (size_t part = 0; part < exchanges_.size(); ++part) {
      SLUICE_RETURN_IF_ERROR(sluice::AwaitReachable(
          *jobs_[part], rejoins, stopped, exchanges_[part].get()));
      if (stopped()) break;
      ShareMemory(*jobs_[part], /*gradient=*/nullptr, exchanges_[part].get());
    }
    return absl::OkStatus();
  }
  void Wake() const {
    for (const auto& exchange : exchanges_) exchange->Wake();
  }

 private:
  std::vector<std::unique_ptr<ResolvedJob>> jobs_;  // Which exchanges point to.
  std::vector<std::unique_ptr<GrpcExchange>> exchanges_;
};

CoordinatorClient::Options EvaluatorSession(const ResolvedJob& job,
                                            const TransportSecurity& security,
                                            const ComputeContext& context,
                                            bool rejoins) {
  CoordinatorClient::Options session =
      SessionOptions(job, security, proto::EVALUATOR, 0, rejoins);
  const auto inputs = context.InputsOfMeasure();
  session.join.mutable_inputs()->insert(inputs.begin(), inputs.end());
  return session;
}

// From one Join to the end of that session. An error: it did not come to that.
absl::StatusOr<LifeEnd> Live(const ResolvedJob& job,
                             const TransportSecurity& security,
                             ComputeContext& context,
                             const std::string& weights_path, bool rejoins,
                             bool last_try, LeaveOnSignal* leave,
                             ProcessPort* port) {
  Mailbox<proto::FromCoordinator> mailbox;
  CancelToken over;
  std::atomic<bool> finished = false;  // The run is.
  PartExchanges exchanges;             // Outlives the client.
  auto session = EvaluatorSession(job, security, context, rejoins);
  session.on_message = [&](const proto::FromCoordinator& message) {
    if (message.has_finish()) finished = true;
    mailbox.Put(message);
  };
  SLUICE_ASSIGN_OR_RETURN(const std::unique_ptr<CoordinatorClient> client,
                          CoordinatorClient::Connect(std::move(session)));
  const proto::Welcome welcome = client->welcome();
  if (welcome.shard_addresses().empty()) {  // The run is over.
    return LifeEnd{.finish = TakeFinish(&mailbox),
                   .late = true,
                   .session = client->Wait()};
  }
  if (rejoins) LogNewLife(welcome);
  SLUICE_RETURN_IF_ERROR(LeaveUnlessOk(
      context.Build(job.job, welcome.instruction_set()), client.get()));
  SLUICE_RETURN_IF_ERROR(
      exchanges.Open(job, context.measure->parts(), security, welcome));
  TellUnreached([&exchanges] { return exchanges.unreached(); }, client.get());
  const auto count = [&security] { return Counted(security); };
  client->TellCounters(count);
  port->Joined(count);
  leave->Joined([&](const std::string& reason) {
    // First: what is given up is no failure.
    client->Leave(reason, /*for_good=*/!leave->yields());
    context.measure->Abandon();
  });

  Evaluator evaluator(EvaluatorOptionsFromJob(job, weights_path), &job.layout,
                      context.measure.get(), exchanges.all());
  LifeEnd end;
  std::thread compute = StartThread("compute", [&] {
    context.Enter();
    end.worked =
        exchanges.AwaitReachable(rejoins, [&] { return over.cancelled(); });
    if (end.worked.ok()) {
      Serve(
          &mailbox,
          [&](const proto::Evaluate& request) {
            return Evaluate(request, Generation(welcome.generation()), over,
                            &last_try, *context.measure, &evaluator);
          },
          [&](proto::ToCoordinator answer) { client->Send(std::move(answer)); },
          &end);
    }
    if (!end.worked.ok()) client->Leave(std::string(end.worked.message()));
  });
  end.session = client->Wait();
  over.Cancel();
  exchanges.Wake();
  context.measure->Wake();
  if (finished) context.measure->Abandon();
  mailbox.Close();
  compute.join();
  if (!end.finish.has_value()) end.finish = TakeFinish(&mailbox);
  end.told_to_leave = leave->Parted();
  port->Parted();
  end.gradient_broken = context.measure->broken();
  return end;
}

// Evaluates for the job's coordinator until the run is over; the final weights
// go into weights.safetensors in `run_dir`, in output.run_dir when that is
// empty, nowhere when both are. `command` is that of the model process that
// measures, if the job has one. `yields` as LeaveOnSignal's. OK: the run
// reached its end, or this process was told to stop. Else says what went wrong,
// naming the culprit. Blocks. REQUIRES: StopSignal::Block was called.
absl::Status RunEvaluator(const ResolvedJob& job, bool yields,
                          const TransportSecurity& security, ProcessPort* port,
                          const std::string& run_dir,
                          const std::vector<std::string>& command) {
  const auto make = [&] { return MakeEvaluatorContext(job, command); };
  SLUICE_ASSIGN_OR_RETURN(ComputeContext context, make());
  SLUICE_ASSIGN_OR_RETURN(const std::string weights_path,
                          WeightsPath(job, run_dir));
  LeaveOnSignal leave(yields);
  RejoinPolicy rejoin;
  for (bool rejoins = false;; rejoins = true) {
    SLUICE_ASSIGN_OR_RETURN(const LifeEnd end,
                            Live(job, security, context, weights_path, rejoins,
                                 rejoin.last_try(), &leave, port));
    if (!rejoin.Rejoins(end)) {
      const absl::Status outcome = RunOutcome(end, yields);
      // Of layers there is none where the run was over before they were built.
      if (EndedWell(end) && context.measure) context.measure->LetEnd();
      return outcome;
    }
    LogEndOfLife(end);
    if (!end.gradient_broken) continue;
    SLUICE_RETURN_IF_ERROR(MakeAgain(make, &rejoin, &context));
  }
}

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) {
  sluice::SetUpProcess();
  sluice::TuneMallocForChunks();
  sluice::LeaveLockOrderUnwatched();
  sluice::PollQueuesApart();
  sluice::RaiseDescriptorLimit();
  sluice::StopSignal::Block();

  CLI::App app("Measures versions of a job on its test split.", "evaluator");
  sluice::DaemonFlags flags;
  sluice::AddDaemonFlags(&app, &flags);
  std::string run_dir;
  app.add_option("--run-dir", run_dir,
                 "folder for weights.safetensors. Default: output.run_dir");
  std::vector<std::string> command;
  sluice::AddModelCommand(&app, &command);
  if (const auto code = sluice::ParseCommandLine(argc, argv, &app))
    return *code;
  const sluice::DaemonLog log("evaluator", flags.log, flags.debug);

  const auto job = sluice::LoadDaemonJob(flags);
  if (!job.ok()) return sluice::UsageExitCode(job.status());
  sluice::LetRead(job->job.output().mode());
  const auto agrees = sluice::CheckEvaluatorCommand(job->job, command);
  if (!agrees.ok()) return sluice::UsageExitCode(agrees);
  const auto security =
      sluice::OpenSecurity(flags, *job, sluice::TlsRole::kEvaluator);
  if (!security.ok()) return sluice::UsageExitCode(security.status());
  const auto port = sluice::ProcessPort::Open(flags.http, "evaluator", {"0"});
  if (!port.ok()) return sluice::PortExitCode(port.status());
  return sluice::ExitCode(sluice::RunEvaluator(*job, flags.yield, *security,
                                               port->get(), run_dir, command));
}
