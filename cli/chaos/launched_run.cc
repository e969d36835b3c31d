// Processes are found as `ps` finds them: the kernel lists the launcher's
// children, and their command lines say which part each is. The list may lack
// one while another one ends, so whoever was there at the last look is asked
// for as well. A process that has ended has no command line, and its number is
// not given to another one for as long as matters here.
#include "cli/chaos/launched_run.h"

#include <signal.h>

#include <fstream>
#include <iterator>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace sluice {
namespace {

std::string ReadFrom(const std::string& path, size_t offset = 0) {
  std::ifstream in(path, std::ios::binary);
  in.seekg(static_cast<std::streamoff>(offset));
  return std::string{std::istreambuf_iterator<char>(in), {}};
}

// The part that a command line is of; empty: none, since it has ended or is
// the launcher's own until its child becomes the daemon.
std::string PartOf(const std::string& command_line) {
  bool has_job = false;
  for (absl::string_view word : absl::StrSplit(command_line, '\0')) {
    has_job |= absl::StartsWith(word, "--job=");
    if (absl::ConsumePrefix(&word, "--shard=")) {
      return absl::StrCat("ps_server-", word);
    }
    if (absl::ConsumePrefix(&word, "--worker=")) {
      return absl::StrCat("worker-", word);
    }
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
  std::string output = ReadFrom(log_, taken_);
  output.resize(output.rfind('\n') + 1);  // None: npos, which is -1.
  taken_ += output.size();
  return output;
}

std::map<std::string, pid_t> LaunchedRun::Parts() {
  std::set<pid_t> pids;
  for (const auto& [name, pid] : parts_) pids.insert(pid);
  const pid_t launcher = launcher_->pid();
  const std::string children = ReadFrom(
      absl::StrCat("/proc/", launcher, "/task/", launcher, "/children"));
  for (absl::string_view child :
       absl::StrSplit(children, ' ', absl::SkipWhitespace())) {
    if (int pid = 0; absl::SimpleAtoi(child, &pid)) pids.insert(pid);
  }
  parts_.clear();
  for (const pid_t pid : pids) {
    const std::string part =
        PartOf(ReadFrom(absl::StrCat("/proc/", pid, "/cmdline")));
    if (!part.empty()) parts_[part] = pid;
  }
  return parts_;
}

void LaunchedRun::Kill() { launcher_->Signal(SIGKILL); }

}  // namespace sluice
