#include "cli/plot/draw.h"

#include <filesystem>
#include <memory>
#include <optional>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "cli/child_process.h"
#include "cli/run_folder.h"
#include "cli/signal_wait.h"
#include "common/atomic_file.h"
#include "common/status_macros.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

// One picture of some thousand points takes a second at most.
constexpr absl::Duration kPatience = absl::Minutes(1);

// How the child ended; empty when it was stopped, by a signal to this process
// or because it took too long.
std::optional<ChildExit> Await(ChildProcess& child, SignalWait& signals) {
  while (true) {
    const std::optional<ChildExit> exit = child.Poll();
    if (exit.has_value()) return exit;
    const std::optional<int> signal = signals.WaitFor(kPatience);
    if (signal != SIGCHLD) return std::nullopt;
  }
}

}  // namespace

absl::Status Draw(const Figure& figure, const std::string& folder,
                  const std::string& gnuplot) {
  const std::string base = absl::StrCat(folder, "/", figure.name);
  const std::string script = absl::StrCat(base, ".gnuplot");
  SLUICE_RETURN_IF_ERROR(WriteFileAtomically(script, {figure.script}));
  std::error_code error;
  if (!fs::exists(gnuplot, error)) {
    return absl::UnavailableError(absl::StrCat(
        "gnuplot is not installed (there is no ", gnuplot,
        "): apt-get install gnuplot-nox. The scripts with their data are in ",
        folder, "; later, there: gnuplot ", figure.name, ".gnuplot"));
  }
  for (const char* ending : {".svg", ".png"}) {
    fs::remove(absl::StrCat(base, ending), error);
  }
  const std::string log = absl::StrCat(base, ".log");
  fs::remove(log, error);
  SignalWait signals;
  SLUICE_ASSIGN_OR_RETURN(
      const std::unique_ptr<ChildProcess> child,
      ChildProcess::Start(
          {"/usr/bin/env", "-C", folder, fs::absolute(gnuplot, error).string(),
           absl::StrCat(figure.name, ".gnuplot")},
          log));
  const std::optional<ChildExit> exit = Await(*child, signals);
  if (!exit.has_value()) {
    return absl::CancelledError(
        absl::StrCat(gnuplot, " was stopped at ", script));
  }
  const bool drawn = fs::exists(absl::StrCat(base, ".svg"), error) &&
                     fs::exists(absl::StrCat(base, ".png"), error);
  if (!exit->ok() || !drawn) {
    return absl::InternalError(absl::StrCat(gnuplot, " ", script, ": ",
                                            exit->ToString(), "\n",
                                            TailOfFile(log, 8, "  ")));
  }
  fs::remove(log, error);
  return absl::OkStatus();
}

}  // namespace sluice
