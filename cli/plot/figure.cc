// A picture is one file, so that it can be moved, edited and drawn again
// anywhere: what differs from run to run comes first, as data, and the scripts
// of figures/ follow as they are.
#include "cli/plot/figure.h"

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/time/time.h"
#include "cli/launch/child_process.h"
#include "cli/launch/signal_wait.h"
#include "cli/plot/figure_scripts.h"
#include "cli/run_folder.h"
#include "common/files/atomic_file.h"
#include "common/status_macros.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

// How the child, called `name`, ended. Errors as Draw's: it is to be stopped.
absl::StatusOr<ChildExit> Await(const std::string& name,
                                absl::Duration patience, ChildProcess& child,
                                SignalWait& signals) {
  while (true) {
    const std::optional<ChildExit> exit = child.Poll();
    if (exit.has_value()) return *exit;
    const std::optional<int> signal = signals.WaitFor(patience);
    if (!signal.has_value()) {
      return absl::DeadlineExceededError(absl::StrCat(
          name, ": took longer than ", absl::FormatDuration(patience)));
    }
    if (*signal != SIGCHLD) {
      return absl::CancelledError(absl::StrCat(name, ": was stopped"));
    }
  }
}

bool IsUtf8(const std::string& text) {
  // Uses the decoder of the JSON library: bytes that it leaves out are no
  // UTF-8.
  using Handler = nlohmann::json::error_handler_t;
  const nlohmann::json json(text);
  return json.dump(-1, ' ', false, Handler::ignore) ==
         json.dump(-1, ' ', false, Handler::replace);
}

// "array NAME[2] = [A, B]"
std::string ArrayOf(absl::string_view name,
                    const std::vector<std::string>& elements) {
  return absl::StrFormat("array %s[%d] = [%s]\n", name, elements.size(),
                         absl::StrJoin(elements, ", "));
}

// With as many digits as a picture needs.
std::string Number(double value) { return absl::StrFormat("%.7g", value); }

}  // namespace

void FigureData::AddNumber(absl::string_view name, double value) {
  absl::StrAppend(&text_, name, " = ", Number(value), "\n");
}

void FigureData::AddText(absl::string_view name, absl::string_view text) {
  absl::StrAppend(&text_, name, " = ", Quoted(text), "\n");
}

void FigureData::AddNumbers(absl::string_view name,
                            const std::vector<double>& values) {
  std::vector<std::string> elements;
  for (const double value : values) elements.push_back(Number(value));
  text_ += ArrayOf(name, elements);
}

void FigureData::AddTexts(absl::string_view name,
                          const std::vector<std::string>& texts) {
  std::vector<std::string> elements;
  for (const std::string& text : texts) elements.push_back(Quoted(text));
  text_ += ArrayOf(name, elements);
}

void FigureData::AddBlock(absl::string_view name, absl::string_view columns,
                          const std::vector<std::string>& data_sets) {
  std::vector<std::string> written;
  std::vector<size_t> which;
  for (size_t i = 0; i < data_sets.size(); ++i) {
    if (data_sets[i].empty()) continue;
    written.push_back(data_sets[i]);
    which.push_back(i + 1);
  }
  AddText(name, absl::StrJoin(which, " "));
  // Two empty lines end a data set.
  absl::StrAppend(&text_, "$", name, " << END\n# ", columns, "\n",
                  absl::StrJoin(written, "\n\n"), "END\n");
}

Figure FigureData::Drawn(const std::string& name,
                         absl::string_view script) const {
  return {name, absl::StrCat("# Draws ", name, ".svg and ", name,
                             ".png: gnuplot ", name, ".gnuplot\n", text_, "\n",
                             kStyleScript, "\n", script)};
}

std::string Quoted(absl::string_view text) {
  std::string clean(text);
  const bool utf8 = IsUtf8(clean);
  for (char& c : clean) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f || (byte >= 0x80 && !utf8)) c = '?';
  }
  // gnuplot takes '' at the beginning for an empty text.
  if (absl::StartsWith(clean, "'")) clean.replace(0, 1, "\u2019");
  return absl::StrCat("'", absl::StrReplaceAll(clean, {{"'", "''"}}), "'");
}

absl::Status Draw(const Figure& figure, const std::string& folder,
                  const std::string& gnuplot, absl::Duration patience) {
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
  SLUICE_ASSIGN_OR_RETURN(
      const ChildExit exit,
      Await(absl::StrCat(gnuplot, " ", script), patience, *child, signals));
  const bool drawn = fs::exists(absl::StrCat(base, ".svg"), error) &&
                     fs::exists(absl::StrCat(base, ".png"), error);
  if (!exit.ok() || !drawn) {
    return absl::InternalError(absl::StrCat(gnuplot, " ", script, ": ",
                                            exit.ToString(), "\n",
                                            TailOfFile(log, 8, "  ")));
  }
  fs::remove(log, error);
  return absl::OkStatus();
}

}  // namespace sluice
