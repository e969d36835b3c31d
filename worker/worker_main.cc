// The worker: computes gradients for the coordinator that the job names.
// Exit codes: common/process/exit_codes.h.

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/files/file_mode.h"
#include "common/http/process_port.h"
#include "common/ids.h"
#include "common/job/any_number.h"
#include "common/job/delay_model.h"
#include "common/job/group.h"
#include "common/job/job_counts.h"
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
#include "common/telemetry/counter_table.h"
#include "common/telemetry/daemon_log.h"
#include "common/telemetry/log_value.h"
#include "common/telemetry/shared_counters.h"
#include "common/tls/transport_security.h"
#include "common/wire/job_wire_types.h"
#include "third_party/spdlog.h"
#include "worker/compute/compute_context.h"
#include "worker/daemon.h"
#include "worker/data/data_source.h"
#include "worker/pipeline/group_links.h"
#include "worker/pipeline/member_listener.h"
#include "worker/pipeline/turns.h"
#include "worker/rejoin_policy.h"
#include "worker/task/task_inbox.h"
#include "worker/task/timeline.h"
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
// kInvalidArgument: there is no such group.
absl::StatusOr<std::optional<WorkerId>> ParseNumber(
    const std::string& number, const proto::Job& job,
    const std::string& timeline) {
  int64_t id = 0;
  if (absl::SimpleAtoi(number, &id)) {
    // A group's process waits for its neighbours before the lead can refuse it.
    if (!IsGroup(job)) return WorkerId(id);
    const bool slots = SlotsOf(job) > 1;
    const int groups = slots ? GroupsOf(job) : MostWorkers(job.cluster());
    if (id < groups) return WorkerId(id);
    return absl::InvalidArgumentError(
        absl::StrCat("--worker: must be 0 to ", groups - 1, " (the groups, ",
                     slots ? "cluster.workers / worker.group.slots"
                           : "cluster.workers or max_workers",
                     "), is ", id));
  }
  SLUICE_RETURN_IF_ERROR(CheckAnyNumber(job));
  if (timeline.empty()) return std::nullopt;
  return absl::FailedPreconditionError(
      "--timeline: its tracks are named after the worker's number: start it "
      "with --worker=N instead of --worker=any");
}

// All that a worker counts.
WorkerCounters CountersOf(const SharedCounters<WorkerCounters>& counters,
                          const ComputeContext& context,
                          const GrpcExchange& exchange) {
  WorkerCounters all = counters.Get();
  all.pulled_bytes = exchange.pulled_bytes_total();
  all.pushed_bytes = exchange.pushed_bytes_total();
  all.repeated_calls = exchange.repeated_calls_total();
  if (context.data != nullptr) all.damaged_samples = context.data->damaged();
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

// What this process is: a worker, or a member of a group.
struct Process {
  const ResolvedJob& job;  // Of a member, its stage's.
  const TransportSecurity& security;
  const MemberFlags& member;
  ProcessPort& port;
  const std::string& timeline;  // Path; empty: none.
  // Of the model process.
  const std::vector<std::string>& command;
  LeaveOnSignal leave;
  // Of a member:
  std::unique_ptr<MemberListener> listener = {};
  std::shared_ptr<const DataSource> data = {};
  Turns turns = {};
};

// One slot of it, which is a worker for the coordinator.
struct Self {
  Process& process;
  int slot = 0;  // Its place among the process's.
  GroupLinks& links;
  Timeline* timeline = nullptr;
  std::map<std::string, std::string> inputs = {};  // As in Join.

  // Under the number with which it was welcomed.
  std::string Name(int64_t number) const {
    const int members = MembersOf(process.job.job);
    return absl::StrCat(
        "worker ", number,
        members == 1 ? "" : absl::StrCat(" member ", process.member.member));
  }
};

// One life's tasks, from its Welcome on, until the inbox is closed.
class Tasks {
 public:
  Tasks(const Self& self, const ComputeContext& context)
      : self_(self), context_(context), inbox_(&counters_) {
    counters_.Set(&WorkerCounters::model_restarts, context.restarts);
  }

  TaskInbox& inbox() { return inbox_; }
  // After Open: the shard that this member, or one behind it, does not reach.
  std::optional<UnreachedShard> unreached() const {
    auto own = exchange_->unreached();
    if (own.has_value() && !self_.links.first()) {
      absl::StrAppend(&own->name, " from member ", self_.links.member());
    }
    return LongerUnreached(own, self_.links.unreached());
  }
  CounterMap Counted() const {
    return sluice::Counted(CountersOf(counters_, context_, *exchange_),
                           self_.process.security);
  }

  // Comes before all else.
  absl::Status Open(const proto::Welcome& welcome) {
    number_ = welcome.id();
    SLUICE_ASSIGN_OR_RETURN(
        exchange_, OpenExchange(self_.process.job, self_.process.security,
                                JobWireTypes(self_.process.job.job), welcome));
    inbox_.set_wake([this] {
      exchange_->Wake();
      context_.gradient->Wake();
    });
    return absl::OkStatus();
  }
  // Runs them on a thread of their own, which ends with `give_up` where they
  // cannot go on. Returns that thread.
  std::thread Start(const Trainer::Options& options, bool rejoins,
                    absl::Status* worked,
                    std::function<void(const std::string&)> give_up) {
    return StartThread("compute", [this, &options, rejoins, worked,
                                   give_up = std::move(give_up)] {
      context_.Enter();
      Trainer trainer(options, context_.gradient.get(), exchange_.get());
      WorkerLoop loop(
          self_.process.job.job.cluster().coordinator(), &inbox_, &trainer,
          &counters_,
          [this](proto::ToCoordinator message) {
            self_.links.Up(std::move(message));
          },
          self_.timeline);
      *worked = AwaitReachable(
          self_.process.job, rejoins, [this] { return inbox_.closed(); },
          exchange_.get());
      if (worked->ok() && !inbox_.closed()) {
        ShareMemory(self_.process.job, context_.gradient->SharedGradient(),
                    exchange_.get());
      }
      if (worked->ok()) *worked = loop.Run();
      if (worked->ok() && !inbox_.finish().has_value()) {
        *worked = self_.links.broken();
      }
      if (!worked->ok()) give_up(std::string(worked->message()));
    });
  }
  // After that thread has ended. Says what was counted.
  void Describe(LifeEnd* end) const {
    const WorkerCounters all = CountersOf(counters_, context_, *exchange_);
    spdlog::info("event=done worker={} {}", number_,
                 CountersText(kWorkerCounters, all));
    end->finish = inbox_.finish();
    end->delivered = all.gradients_delivered > 0;
    end->gradient_broken = context_.gradient->broken();
    end->link_broken = !self_.links.broken().ok();
  }

 private:
  const Self& self_;
  const ComputeContext& context_;
  SharedCounters<WorkerCounters> counters_;
  TaskInbox inbox_;
  int64_t number_ = 0;
  std::unique_ptr<GrpcExchange> exchange_;
};

// What the Join of a group's worker says of all its processes. After BeginLife.
void DescribeGroup(const Self& self, proto::Join* join) {
  if (!IsGroup(self.process.job.job)) return;
  join->set_instruction_set(self.links.InstructionSet());
  const std::vector<std::string> processes = self.links.Processes();
  join->mutable_members()->Assign(processes.begin(), processes.end());
}

// From one Join to the end of that session. An error: it did not come to that.
// `number` becomes that under which the worker was welcomed.
absl::StatusOr<LifeEnd> Live(const Self& self, ComputeContext& context,
                             const Trainer::Options& options,
                             CoordinatorClient::Options session,
                             int64_t* number) {
  Tasks tasks(self, context);
  TaskInbox& inbox = tasks.inbox();
  const bool rejoins = session.rejoins;
  std::unique_ptr<CoordinatorClient> client;
  SLUICE_RETURN_IF_ERROR(self.links.BeginLife(
      {.answer =
           [&client](proto::ToCoordinator answer) {
             client->Send(std::move(answer));
           },
       .on_broken =
           [&inbox](const absl::Status& why) {
             inbox.Close(std::string(why.message()));
           },
       .stopped = [&self] { return self.process.leave.left(); },
       .inputs = self.inputs},
      rejoins));
  const absl::Cleanup end_links = [&self] { self.links.EndLife(); };
  if (self.process.leave.left()) return LifeEnd{.told_to_leave = true};
  DescribeGroup(self, &session.join);
  session.on_message = [&](const proto::FromCoordinator& message) {
    inbox.Receive(message);
    self.links.Down(message);
  };
  SLUICE_ASSIGN_OR_RETURN(client,
                          CoordinatorClient::Connect(std::move(session)));
  if (inbox.finish().has_value()) {
    return LifeEnd{
        .finish = inbox.finish(), .late = true, .session = client->Wait()};
  }
  const proto::Welcome welcome = client->welcome();
  *number = welcome.id();
  if (rejoins) LogNewLife(welcome);
  spdlog::info("event=welcome worker={}", *number);
  SLUICE_RETURN_IF_ERROR(LeaveUnlessOk(
      context.Build(self.process.job.job, welcome.instruction_set()),
      client.get()));
  SLUICE_RETURN_IF_ERROR(tasks.Open(welcome));
  TellUnreached([&] { return tasks.unreached(); }, client.get());
  client->TellCounters([&tasks] { return tasks.Counted(); });
  ProcessPort& port = self.process.port;
  LeaveOnSignal& leave = self.process.leave;
  port.Rename(absl::StrCat(*number), self.slot);
  port.Joined([&tasks] { return tasks.Counted(); }, self.slot);
  self.links.Welcomed(welcome);
  leave.Joined(
      [&](const std::string& reason) {
        inbox.Close(reason);
        context.gradient->Abandon();
        client->Leave(reason);
      },
      self.slot);

  LifeEnd end;
  std::thread compute =
      tasks.Start(options, rejoins, &end.worked,
                  [&client](const std::string& why) { client->Leave(why); });
  end.session = client->Wait();
  inbox.Close("the session has ended");
  if (inbox.finish().has_value()) context.gradient->Abandon();
  self.links.Sever();
  compute.join();
  end.told_to_leave = leave.Parted(self.slot);
  port.Parted(self.slot);
  tasks.Describe(&end);
  return end;
}

// The same of a member behind the first, from its link to the end of that.
absl::StatusOr<LifeEnd> LiveAsMember(const Self& self, ComputeContext& context,
                                     const Trainer::Options& options,
                                     bool rejoins) {
  Tasks tasks(self, context);
  TaskInbox& inbox = tasks.inbox();
  SLUICE_RETURN_IF_ERROR(self.links.BeginLife(
      {.on_message =
           [&inbox](const proto::FromCoordinator& message) {
             inbox.Receive(message);
           },
       .on_broken =
           [&inbox](const absl::Status& why) {
             inbox.Close(std::string(why.message()));
           },
       .stopped = [&] { return inbox.closed() || self.process.leave.left(); },
       .inputs = self.inputs},
      rejoins));
  const absl::Cleanup end_links = [&self] { self.links.EndLife(); };
  SLUICE_ASSIGN_OR_RETURN(const std::optional<proto::Welcome> welcome,
                          self.links.AwaitWelcome(rejoins));
  if (!welcome.has_value()) {
    return LifeEnd{.finish = inbox.finish(),
                   .late = true,
                   .told_to_leave = self.process.leave.left(),
                   .session = SessionOfMember(absl::OkStatus(), true)};
  }
  if (rejoins) LogNewLife(*welcome);
  SLUICE_RETURN_IF_ERROR(
      context.Build(self.process.job.job, welcome->instruction_set()));
  SLUICE_RETURN_IF_ERROR(tasks.Open(*welcome));
  self.links.TellUnreached([&tasks] { return tasks.unreached(); });
  self.links.Welcomed(*welcome);
  ProcessPort& port = self.process.port;
  LeaveOnSignal& leave = self.process.leave;
  port.Joined([&tasks] { return tasks.Counted(); }, self.slot);
  leave.Joined(
      [&](const std::string& reason) {
        inbox.Close(reason);
        self.links.Sever();
      },
      self.slot);
  LifeEnd end;
  std::thread compute =
      tasks.Start(options, rejoins, &end.worked, [](const std::string&) {});
  compute.join();
  end.told_to_leave = leave.Parted(self.slot);
  port.Parted(self.slot);
  tasks.Describe(&end);
  end.session = SessionOfMember(end.worked, end.link_broken);
  return end;
}

absl::StatusOr<ComputeContext> MakeContext(Process& process, WorkerId id,
                                           SlotTurn* turn, GroupLinks* links) {
  if (!IsGroup(process.job.job)) {
    return MakeWorkerContext(process.job, id, process.command);
  }
  return MakeMemberContext(process.job, id, process.data, turn, links);
}

// Works for the job's coordinator as worker `given`, or as one that it gives a
// number to, until the run is over. OK: it reached its end, or this process was
// told to stop. Else says what went wrong, naming the culprit. Blocks.
absl::Status RunWorker(Process& process, std::optional<WorkerId> given,
                       int slot) {
  const ResolvedJob& job = process.job;
  const WorkerId id = given.value_or(WorkerId(0));  // CheckAnyNumber.
  SlotTurn turn(&process.turns);
  SLUICE_ASSIGN_OR_RETURN(
      const std::unique_ptr<GroupLinks> links,
      GroupLinks::Open(process.member, job, id, process.listener.get(), &turn,
                       process.security));
  const auto make = [&] {
    return MakeContext(process, id, &turn, links.get());
  };
  SLUICE_ASSIGN_OR_RETURN(ComputeContext context, make());
  Self self = {.process = process, .slot = slot, .links = *links};
  std::unique_ptr<Timeline> timeline;
  if (!process.timeline.empty()) {
    const int64_t number =
        id.value() * MembersOf(job.job) + process.member.member;
    SLUICE_ASSIGN_OR_RETURN(
        timeline,
        Timeline::Open(process.timeline, {number, self.Name(id.value())}));
    self.timeline = timeline.get();
  }
  spdlog::info("event=ready worker={} device={} parameters={}",
               given.has_value() ? absl::StrCat(id.value()) : kAny,
               LogValue(context.DeviceName()), job.layout.size());
  Trainer::Options options;
  SLUICE_ASSIGN_OR_RETURN(options.delay, ComputeDelay::Create(job.job));
  CoordinatorClient::Options session = SessionOptions(
      job, process.security, proto::WORKER, id.value(), /*rejoins=*/false);
  session.join.set_any_number(!given.has_value());
  const auto say_inputs = [&] {  // It takes time.
    self.inputs = context.Inputs();
    session.join.clear_inputs();
    session.join.mutable_inputs()->insert(self.inputs.begin(),
                                          self.inputs.end());
  };
  say_inputs();
  RejoinPolicy rejoin;
  for (;; session.rejoins = true) {
    int64_t number = session.join.id();
    SLUICE_ASSIGN_OR_RETURN(
        const LifeEnd end,
        links->first() ? Live(self, context, options, session, &number)
                       : LiveAsMember(self, context, options, session.rejoins));
    session.join.set_id(number);  // The next life keeps it, if it can.
    if (!rejoin.Rejoins(end)) {
      const absl::Status outcome = RunOutcome(end, process.leave.yields());
      // Of layers there is none where the run was over before they were built.
      if (EndedWell(end) && context.gradient) context.gradient->LetEnd();
      return outcome;
    }
    LogEndOfLife(end);
    if (!end.gradient_broken) continue;
    SLUICE_RETURN_IF_ERROR(MakeAgain(make, &rejoin, &context));
    say_inputs();
  }
}

// Runs all slots of a member of group `group`, each on a thread of its own. One
// that fails ends the process, and with it the others, which are then lost as
// those of a process that dies.
int RunSlots(Process& process, int group) {
  std::atomic<int> left_with = EXIT_SUCCESS;
  std::vector<std::thread> threads;
  const proto::Job& job = process.job.job;
  for (const int slot : SlotsOfMember(job, process.member.member)) {
    threads.push_back(StartThread("slot", [&process, &job, &left_with, group,
                                           slot, place = threads.size()] {
      const int code = ExitCode(RunWorker(
          process, WorkerOfSlot(job, group, slot), static_cast<int>(place)));
      if (code == EXIT_SUCCESS) return;
      left_with = code;
      if (process.leave.left()) return;   // As the others do.
      spdlog::default_logger()->flush();  // Others may still log.
      std::_Exit(code);
    }));
  }
  for (std::thread& thread : threads) thread.join();
  return left_with;
}

// What --worker says is the number of a group's first slot.
std::vector<std::string> NumbersOf(const proto::Job& job,
                                   const MemberFlags& member,
                                   std::optional<WorkerId> given) {
  if (!given.has_value()) return {kAny};
  std::vector<std::string> numbers;
  for (const int slot : SlotsOfMember(job, member.member)) {
    numbers.push_back(absl::StrCat(
        WorkerOfSlot(job, static_cast<int>(given->value()), slot).value()));
  }
  return numbers;
}

// Runs what the flags say, and returns the process's exit code. REQUIRES:
// StopSignal::Block was called.
int Run(const DaemonFlags& flags, const std::string& number,
        const MemberFlags& member, const std::string& timeline,
        const std::vector<std::string>& command) {
  const auto job = LoadDaemonJob(flags);
  if (!job.ok()) return UsageExitCode(job.status());
  LetRead(job->job.output().mode());
  const auto agrees = CheckModelCommand(job->job, command);
  if (!agrees.ok()) return UsageExitCode(agrees);
  const auto given = ParseNumber(number, job->job, timeline);
  if (!given.ok()) return UsageExitCode(given.status());
  const auto security = OpenSecurity(flags, *job, TlsRole::kWorker);
  if (!security.ok()) return UsageExitCode(security.status());
  const auto fits = CheckMemberFlags(member, job->job, *security);
  if (!fits.ok()) return UsageExitCode(fits);
  const auto port = ProcessPort::Open(flags.http, "worker",
                                      NumbersOf(job->job, member, *given));
  if (!port.ok()) return PortExitCode(port.status());
  const ResolvedJob own =
      StageCount(job->job) == 1
          ? *job
          : JobOfStage(*job, StageOfMember(job->job, member.member));
  Process process = {.job = own,
                     .security = *security,
                     .member = member,
                     .port = **port,
                     .timeline = timeline,
                     .command = command,
                     .leave = LeaveOnSignal(flags.yield)};
  if (!IsGroup(job->job)) return ExitCode(RunWorker(process, *given, 0));
  const int group = static_cast<int>((*given)->value());
  auto listener = ListenForMembers(member, job->job, group, *security);
  if (!listener.ok()) return PortExitCode(listener.status());
  process.listener = *std::move(listener);
  auto data = OpenData(*job, Split::kTrain,
                       StageOfMember(job->job, member.member) == 0);
  if (!data.ok()) return ExitCode(data.status());
  process.data = *std::move(data);
  const int code = RunSlots(process, group);
  if (process.listener != nullptr && process.listener->held_up()) {
    spdlog::default_logger()->flush();
    std::_Exit(code);
  }
  return code;
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

  CLI::App app("Computes gradients for the coordinator of a job.", "worker");
  sluice::DaemonFlags flags;
  sluice::AddDaemonFlags(&app, &flags);
  std::string number;
  app.add_option(
         "--worker", number,
         "number of this worker, or of its group, from 0; any: the lead "
         "gives it the lowest that no living worker has")
      ->required()
      ->check(sluice::CheckNumber);
  sluice::MemberFlags member;
  app.add_option("--member", member.member,
                 "number of this process in its group (worker.group), from 0");
  app.add_option("--upstream", member.upstream,
                 "where the members of the stage before this one's listen, in "
                 "order; repeatable")
      ->allow_extra_args(false);
  app.add_option("--listen", member.listen,
                 "host:port, or unix-abstract:NAME, for the member behind");
  std::string timeline;
  app.add_option("--timeline", timeline,
                 "file to add what this worker does to, as a Chrome trace");
  std::vector<std::string> command;
  sluice::AddModelCommand(&app, &command);
  if (const auto code = sluice::ParseCommandLine(argc, argv, &app))
    return *code;
  const std::string name =
      absl::StrCat("worker-", number,
                   member.member == 0 ? "" : absl::StrCat(".", member.member));
  const sluice::DaemonLog log(name, flags.log, flags.debug);

  return sluice::Run(flags, number, member, timeline, command);
}
