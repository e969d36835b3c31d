#include <iostream>
#include <memory>
#include <string>

#include "cli/commands.h"
#include "cli/plot/plot_runs.h"

namespace sluice {
namespace {

int Plot(const PlotRequest& request) {
  Pictures pictures;
  const absl::Status status = PlotRuns(request, &pictures);
  for (const std::string& note : pictures.notes) std::cerr << note << "\n";
  for (const std::string& path : pictures.drawn) {
    std::cout << path << ".svg " << path << ".png\n";
  }
  if (!status.ok()) std::cerr << status.message() << "\n";
  return PlotExitCode(status);
}

}  // namespace

void AddPlotCommand(CLI::App& app, int* exit_code) {
  CLI::App* command = app.add_subcommand(
      "plot", "Draw loss, accuracy, staleness and a timeline of runs");
  auto flags = std::make_shared<PlotRequest>();
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
