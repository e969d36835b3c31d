#include "cli/plot/plot_runs.h"

#include <filesystem>
#include <set>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cli/commands.h"
#include "cli/plot/figure.h"
#include "cli/plot/recorded_run.h"
#include "cli/plot/run_curves.h"
#include "common/status_macros.h"

namespace sluice {
namespace {

// "runs/a-1/" -> "a-1"; also of ".".
std::string NameOf(const std::string& folder) {
  std::error_code error;
  const std::filesystem::path path =
      std::filesystem::absolute(folder, error).lexically_normal();
  return path.has_filename() ? path.filename().string()
                             : path.parent_path().filename().string();
}

// The first label that comes twice; empty if all differ.
std::string Repeated(const std::vector<std::string>& labels) {
  std::set<std::string> seen;
  for (const std::string& label : labels) {
    if (!seen.insert(label).second) return label;
  }
  return "";
}

absl::StatusOr<std::vector<LabelledRun>> ReadRuns(
    const PlotRequest& request, std::vector<std::string>* notes) {
  SLUICE_ASSIGN_OR_RETURN(const std::vector<std::string> labels,
                          LabelsOf(request.runs, request.labels));
  std::vector<LabelledRun> runs;
  for (size_t r = 0; r < request.runs.size(); ++r) {
    SLUICE_ASSIGN_OR_RETURN(RecordedRun run, ReadRecordedRun(request.runs[r]));
    for (const std::string& note : run.notes) {
      notes->push_back(absl::StrCat(labels[r], ": ", note));
    }
    RunCurves curves = CurvesOf(run);
    runs.push_back({labels[r], std::move(run), std::move(curves)});
  }
  return runs;
}

}  // namespace

absl::StatusOr<std::vector<std::string>> LabelsOf(
    const std::vector<std::string>& folders,
    const std::vector<std::string>& wanted) {
  std::vector<std::string> labels = wanted;
  if (labels.empty()) {
    for (const std::string& folder : folders) labels.push_back(NameOf(folder));
    if (!Repeated(labels).empty()) labels = folders;
  }
  if (labels.size() != folders.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat(labels.size(), " labels for ", folders.size(), " runs"));
  }
  const std::string repeated = Repeated(labels);
  if (!repeated.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("two runs are called '", repeated, "'"));
  }
  return labels;
}

absl::Status PlotRuns(const PlotRequest& request, Pictures* pictures) {
  SLUICE_ASSIGN_OR_RETURN(const std::vector<LabelledRun> runs,
                          ReadRuns(request, &pictures->notes));
  const std::vector<Figure> figures = FiguresOf(runs, request.options);
  if (figures.empty()) {
    return absl::UnavailableError(
        "plot: nothing to draw: no update and no evaluation yet");
  }
  std::error_code error;
  std::filesystem::create_directories(request.out, error);
  if (error) {
    return absl::UnavailableError(
        absl::StrCat("making the folder ", request.out, ": ", error.message()));
  }
  absl::Status status;
  for (const Figure& figure : figures) {
    const absl::Status one = Draw(figure, request.out, request.gnuplot);
    if (absl::IsCancelled(one)) return one;
    status.Update(one);
    if (!one.ok()) continue;
    pictures->drawn.push_back(absl::StrCat(request.out, "/", figure.name));
  }
  return status;
}

int PlotExitCode(const absl::Status& status) {
  if (status.ok()) return 0;
  if (absl::IsCancelled(status)) return kInterrupted;
  return absl::IsInvalidArgument(status) || absl::IsNotFound(status) ? 2 : 1;
}

}  // namespace sluice
