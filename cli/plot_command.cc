#include "cli/plot_command.h"

#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cli/plot/draw.h"
#include "cli/plot/figures.h"
#include "cli/plot/recorded_run.h"
#include "cli/plot/run_curves.h"
#include "cli/plot/run_labels.h"
#include "common/status_macros.h"

namespace sluice {
namespace {

// What a shell makes of SIGINT.
constexpr int kInterrupted = 130;

struct PlotFlags {
  std::vector<std::string> runs;
  std::vector<std::string> labels;
  std::string out = "plots";
  std::string gnuplot = "/usr/bin/gnuplot";
  FigureOptions options;
};

// Reads the runs and says what of them will not be drawn.
absl::StatusOr<std::vector<LabelledRun>> ReadRuns(const PlotFlags& flags) {
  SLUICE_ASSIGN_OR_RETURN(const std::vector<std::string> labels,
                          LabelsOf(flags.runs, flags.labels));
  std::vector<LabelledRun> runs;
  for (size_t r = 0; r < flags.runs.size(); ++r) {
    SLUICE_ASSIGN_OR_RETURN(RecordedRun run, ReadRecordedRun(flags.runs[r]));
    for (const std::string& note : run.notes) {
      std::cerr << labels[r] << ": " << note << "\n";
    }
    RunCurves curves = CurvesOf(run);
    runs.push_back({labels[r], std::move(run), std::move(curves)});
  }
  return runs;
}

int Plot(const PlotFlags& flags) {
  const absl::StatusOr<std::vector<LabelledRun>> runs = ReadRuns(flags);
  if (!runs.ok()) {
    std::cerr << runs.status().message() << "\n";
    return 2;
  }
  const std::vector<Figure> figures = FiguresOf(*runs, flags.options);
  if (figures.empty()) {
    std::cerr << "plot: nothing to draw: no update and no evaluation yet\n";
    return 1;
  }
  std::error_code error;
  std::filesystem::create_directories(flags.out, error);
  if (error) {
    std::cerr << "making the folder " << flags.out << ": " << error.message()
              << "\n";
    return 1;
  }
  // All scripts are written, also where gnuplot is missing.
  absl::Status drawn;
  for (const Figure& figure : figures) {
    const absl::Status one = Draw(figure, flags.out, flags.gnuplot);
    if (absl::IsCancelled(one)) {
      std::cerr << one.message() << "\n";
      return kInterrupted;
    }
    drawn.Update(one);
    if (!one.ok()) continue;
    const std::string path = absl::StrCat(flags.out, "/", figure.name);
    std::cout << path << ".svg " << path << ".png\n";
  }
  if (drawn.ok()) return 0;
  std::cerr << drawn.message() << "\n";
  return 1;
}

}  // namespace

void AddPlotCommand(CLI::App& app, int* exit_code) {
  CLI::App* command = app.add_subcommand(
      "plot", "Draw loss, accuracy, staleness and a timeline of runs");
  auto flags = std::make_shared<PlotFlags>();
  command->add_option("run", flags->runs, "Run folders, real or simulated")
      ->required();
  command
      ->add_option("--out", flags->out,
                   "Folder of the pictures; those there are replaced")
      ->capture_default_str();
  command
      ->add_option("--label", flags->labels,
                   "Name of a run in the pictures, once for each run in "
                   "their order; default: the folder's name")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command
      ->add_option("--updates", flags->options.updates,
                   "Updates of the timeline")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000));
  command
      ->add_option("--workers", flags->options.workers,
                   "Show at most so many workers of a run in the timeline")
      ->capture_default_str()
      ->check(CLI::Range(1, 256));
  command->add_option("--gnuplot", flags->gnuplot, "The program that draws")
      ->capture_default_str();
  command->callback([flags, exit_code] { *exit_code = Plot(*flags); });
}

}  // namespace sluice
