// Finds processes as `ps` does: the kernel lists the launcher's children, and a
// command line says which part a process is. The list may miss a child while
// another one ends, so each look also asks for the processes of the last one. A
// process that has ended has no command line, and the kernel does not give its
// number to another one soon.
#include "cli/chaos/launched_run.h"

#include <signal.h>

#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "cli/run_folder.h"

namespace sluice {
namespace {

// The part that has this command line. Empty: it is no part's. A process that
// has ended has none, and a new child has the launcher's until it becomes the
// daemon.
std::string PartOf(const std::string& command_line) {
  bool has_job = false;
  absl::string_view worker;
  absl::string_view member;
  for (absl::string_view word : absl::StrSplit(command_line, '\0')) {
    if (word == "--") break;  // The model process's own follows.
    has_job |= absl::StartsWith(word, "--job=");
    if (absl::ConsumePrefix(&word, "--shard=")) {
      return absl::StrCat("ps_server-", word);
    }
    if (absl::ConsumePrefix(&word, "--worker=")) worker = word;
    if (absl::ConsumePrefix(&word, "--member=")) member = word;
  }
  if (!worker.empty()) {
    return absl::StrCat("worker-", worker, member.empty() ? "" : ".", member);
  }
  return has_job ? "evaluator" : "";
}

}  // namespace

LaunchedRun::LaunchedRun(std::unique_ptr<ChildProcess> launcher,
                         std::string log)
    : launcher_(std::move(launcher)), log_(std::move(log)) {}

absl::StatusOr<std::unique_ptr<LaunchedRun>> LaunchedRun::Start(
    const std::vector<std::string>& command, const std::string& log) {
  absl::StatusOr<std::unique_ptr<ChildProcess>> launcher =
      ChildProcess::Start(command, log);
  if (!launcher.ok()) return launcher.status();
  return std::unique_ptr<LaunchedRun>(
      new LaunchedRun(*std::move(launcher), log));
}

std::string LaunchedRun::TakeOutput() {
  std::string output = TextOfFile(log_, taken_).value_or("");
  output.resize(output.rfind('\n') + 1);  // Without a newline: 0 (npos is -1).
  taken_ += static_cast<int64_t>(output.size());
  return output;
}

std::map<std::string, pid_t> LaunchedRun::Parts() {
  std::set<pid_t> pids;
  for (const auto& [name, pid] : parts_) pids.insert(pid);
  const pid_t launcher = launcher_->pid();
  const std::string children =
      TextOfFile(
          absl::StrCat("/proc/", launcher, "/task/", launcher, "/children"))
          .value_or("");
  for (absl::string_view child :
       absl::StrSplit(children, ' ', absl::SkipWhitespace())) {
    if (int pid = 0; absl::SimpleAtoi(child, &pid)) pids.insert(pid);
  }
  parts_.clear();
  for (const pid_t pid : pids) {
    const std::string part = PartOf(
        TextOfFile(absl::StrCat("/proc/", pid, "/cmdline")).value_or(""));
    if (!part.empty()) parts_[part] = pid;
  }
  return parts_;
}

void LaunchedRun::Kill() { launcher_->Signal(SIGKILL); }

}  // namespace sluice
