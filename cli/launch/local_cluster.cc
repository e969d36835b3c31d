// The command lines are those that a person would write on several hosts, but
// for ports: shards listen at port 0, and only the lead's address must be known
// to the others. The lead writes it into the run folder, the launcher hands it
// on; a lead that is started again listens there once more.
//
//   ps_server --shard=0 --listen=127.0.0.1:0      writes RUN_DIR/addresses
//   ps_server --shard=1 --coordinator=ADDRESS
//   worker --worker=0 --coordinator=ADDRESS
//
// Members of a group need no ports: member 1 of worker 0 dials the abstract
// socket "sluice-RUN_ID-0.0", at which member 0 listens.
#include "cli/launch/local_cluster.h"

#include <signal.h>

#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "cli/run_folder.h"
#include "common/process/exit_codes.h"
#include "common/process/process_name.h"
#include "common/status_macros.h"
#include "common/telemetry/log_value.h"
#include "common/tls/identity.h"

namespace sluice {
namespace {

// Every child runs on this machine, so the loopback is enough. Port 0 stands
// for a free one.
constexpr char kListen[] = "--listen=127.0.0.1:0";

std::vector<std::string> Command(const ClusterPlan& plan,
                                 const std::string& binary, TlsRole role,
                                 std::vector<std::string> flags) {
  std::vector<std::string> command = {absl::StrCat(plan.bin_dir, "/", binary),
                                      absl::StrCat("--job=", plan.job_path)};
  if (!plan.tls.empty()) {
    command.push_back(absl::StrCat("--tls=", plan.tls, "/", TlsRoleName(role)));
  }
  for (std::string& flag : flags) command.push_back(std::move(flag));
  return command;
}

std::string Coordinator(const std::string& lead) {
  return absl::StrCat("--coordinator=", lead);
}

// The command line of each child. `lead` is the coordinator's "host:port". A
// lead that is started again gets its old address, since the others look for it
// there; empty: it is the first start.
std::vector<std::string> LeadCommand(const ClusterPlan& plan,
                                     const std::string& lead) {
  std::vector<std::string> flags = {
      "--shard=0", lead.empty() ? kListen : absl::StrCat("--listen=", lead),
      absl::StrCat("--run-dir=", plan.run_dir),
      absl::StrCat("--run-id=", plan.run_id)};
  if (plan.resume) flags.push_back("--resume");
  if (!plan.http.empty()) {
    flags.push_back(absl::StrCat("--http=", plan.http));
    flags.push_back(absl::StrCat("--http-linger=", plan.http_linger_s));
  }
  return Command(plan, "ps_server/ps_server", TlsRole::kLead, std::move(flags));
}

std::vector<std::string> ShardCommand(const ClusterPlan& plan, int shard,
                                      const std::string& lead) {
  return Command(plan, "ps_server/ps_server", TlsRole::kShard,
                 {absl::StrCat("--shard=", shard), kListen, Coordinator(lead)});
}

// `member`: of a group of several; they find each other by a name that they
// have from the run's id.
std::vector<std::string> WorkerCommand(const ClusterPlan& plan, int worker,
                                       const std::string& lead,
                                       int member = 0) {
  std::vector<std::string> flags = {absl::StrCat("--worker=", worker),
                                    Coordinator(lead)};
  const auto link = [&](int listening) {
    return absl::StrCat("unix-abstract:sluice-", plan.run_id, "-", worker, ".",
                        listening);
  };
  if (member > 0) flags.push_back(absl::StrCat("--member=", member));
  for (const int upstream : plan.members[member].upstreams) {
    flags.push_back(absl::StrCat("--upstream=", link(upstream)));
  }
  if (plan.members[member].listens) {
    flags.push_back(absl::StrCat("--listen=", link(member)));
  }
  if (plan.timeline) {
    flags.push_back(
        absl::StrCat("--timeline=", plan.run_dir, "/timeline.json"));
  }
  return Command(plan, "worker/worker", TlsRole::kWorker, std::move(flags));
}

std::vector<std::string> EvaluatorCommand(const ClusterPlan& plan,
                                          const std::string& lead) {
  return Command(plan, "worker/evaluator", TlsRole::kEvaluator,
                 {Coordinator(lead), absl::StrCat("--run-dir=", plan.run_dir)});
}

}  // namespace

std::string DefaultBinDir() {
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  return error ? "." : self.parent_path().parent_path().string();
}

LocalCluster::LocalCluster(ClusterPlan plan) : plan_(std::move(plan)) {}

std::string LocalCluster::LogPath(const std::string& name) const {
  return absl::StrCat(plan_.run_dir, "/", name, ".log");
}

// The others are started once the lead has taken its generation and said so.
bool LocalCluster::LeftRun() const {
  std::error_code error;
  return started_.size() > 1 ||
         std::filesystem::exists(absl::StrCat(plan_.run_dir, "/commit_log"),
                                 error);
}

std::vector<std::string> LocalCluster::CommandOf(
    Part part, int number, const std::string& lead) const {
  switch (part) {
    case Part::kLead: {
      ClusterPlan plan = plan_;
      plan.resume |= LeftRun();
      return LeadCommand(plan, lead);
    }
    case Part::kShard:
      return ShardCommand(plan_, number, lead);
    case Part::kWorker:
      return WorkerCommand(plan_, number, lead);
    case Part::kMember:
      return WorkerCommand(plan_, WorkerOf(number), lead, MemberOf(number));
    case Part::kEvaluator:
      return EvaluatorCommand(plan_, lead);
  }
  return {};
}

std::vector<std::string> LocalCluster::ModelCommandOf(Part part) const {
  switch (part) {
    case Part::kWorker:
      return plan_.command;
    case Part::kEvaluator:
      return plan_.evaluator_command;
    case Part::kLead:
    case Part::kShard:
    case Part::kMember:
      return {};
  }
  return {};
}

absl::Status LocalCluster::Start(Part part, int number,
                                 const std::string& lead) {
  const std::string name = NameOfPart(part, number);
  std::vector<std::string> command = CommandOf(part, number, lead);
  // The child writes the log itself, so that it opens a new file when the old
  // one is moved away (log rotation).
  command.push_back(absl::StrCat("--log=", LogPath(name)));
  const std::vector<std::string> model = ModelCommandOf(part);
  if (!model.empty()) {
    command.push_back("--");  // All that follows is the model process's.
    command.insert(command.end(), model.begin(), model.end());
  }
  SLUICE_ASSIGN_OR_RETURN(std::unique_ptr<ChildProcess> process,
                          ChildProcess::Start(command, LogPath(name)));
  started_[name] = {part, number};
  children_.push_back({part, name, std::move(process)});
  return absl::OkStatus();
}

absl::Status LocalCluster::StartLead() {
  return Start(Part::kLead, 0, /*lead=*/"");
}

absl::Status LocalCluster::StartOthers(const std::string& lead) {
  for (int shard = 1; shard < plan_.shards; ++shard) {
    SLUICE_RETURN_IF_ERROR(Start(Part::kShard, shard, lead));
  }
  if (plan_.evaluator) {
    SLUICE_RETURN_IF_ERROR(Start(Part::kEvaluator, 0, lead));
  }
  for (int worker = 0; worker < plan_.workers; ++worker) {
    SLUICE_RETURN_IF_ERROR(Start(Part::kWorker, worker, lead));
    const int members = static_cast<int>(plan_.members.size());
    for (int member = 1; member < members; ++member) {
      SLUICE_RETURN_IF_ERROR(
          Start(Part::kMember, NumberOfMember(worker, member), lead));
    }
  }
  return absl::OkStatus();
}

absl::Status LocalCluster::Restart(const std::string& name) {
  const auto [part, number] = started_.at(name);
  return Start(part, number, ReadLeadAddress().host_port);
}

PartEnd LocalCluster::NotStarted(const std::string& name,
                                 const absl::Status& why) const {
  const auto [part, number] = started_.at(name);
  return {.part = part,
          .number = number,
          .name = name,
          .killed = true,
          .how = std::string(why.message())};
}

void LocalCluster::Signal(const std::string& name, int number) {
  for (Child& child : children_) {
    if (child.name == name) child.process->Signal(number);
  }
}

void LocalCluster::SignalWorker(int worker, int number) {
  for (int member = 0; member < static_cast<int>(plan_.members.size());
       ++member) {
    Signal(member == 0
               ? NameOfPart(Part::kWorker, worker)
               : NameOfPart(Part::kMember, NumberOfMember(worker, member)),
           number);
  }
}

std::vector<std::string> LocalCluster::Names() const {
  std::vector<std::string> names;
  for (const Child& child : children_) names.push_back(child.name);
  return names;
}

std::string LocalCluster::HowEnded(const std::string& name,
                                   const ChildExit& exit) const {
  const std::string how = exit.ToString();
  if (exit.ok() || exit.signal != 0) return how;
  // A daemon says why in its last line.
  const std::string failed = "event=failed error=";
  const std::string last = TailOfFile(LogPath(name), /*lines=*/1, "");
  const size_t at = last.find(failed);
  if (at == std::string::npos) return how;
  return absl::StrCat(how, ": ", FromLogValue(last.substr(at + failed.size())));
}

std::vector<PartEnd> LocalCluster::TakeEnded() {
  std::vector<PartEnd> ended;
  std::vector<Child> left;
  for (Child& child : children_) {
    const std::optional<ChildExit> exit = child.process->Poll();
    if (!exit.has_value()) {
      left.push_back(std::move(child));
      continue;
    }
    ended.push_back(
        {.part = child.part,
         .number = started_.at(child.name).second,
         .name = child.name,
         .ok = exit->ok(),
         .killed = exit->signal != 0,
         .asks_for_restart = exit->signal == 0 && exit->status == kExitRestart,
         .misused = exit->signal == 0 && exit->status == kExitUsage,
         .how = HowEnded(child.name, *exit),
         .process = ProcessName(child.process->pid())});
  }
  children_ = std::move(left);
  return ended;
}

void LocalCluster::KillAll() {
  for (Child& child : children_) child.process->Signal(SIGKILL);
}

LeadAddress LocalCluster::ReadLeadAddress() const {
  return LeadAddressOf(plan_.run_dir);
}

std::string LocalCluster::TailOf(const std::string& name) const {
  // The last events, one a line, say what led to the end.
  constexpr int kLines = 10;
  return TailOfFile(LogPath(name), kLines, "  | ");
}

}  // namespace sluice
