#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>
#include <string>

#include "cli/commands.h"
#include "cli/job_flags.h"
#include "cli/plot/plot_runs.h"
#include "cli/slow_work.h"
#include "common/telemetry/json_text.h"
#include "nlohmann/json.hpp"

namespace sluice {
namespace {

struct PlotFlags {
  PlotRequest request;
  bool json = false;
};

std::string PicturesJson(const Pictures& pictures) {
  nlohmann::ordered_json json;
  json["pictures"] = nlohmann::json::array();
  for (const std::string& path : pictures.drawn) {
    json["pictures"].push_back({path + ".svg", path + ".png"});
  }
  json["notes"] = pictures.notes;
  return JsonText(json, 2) + "\n";
}

int Plot(const PlotFlags& flags) {
  const PlotRequest& request = flags.request;
  const SlowWork slow("plot");
  Pictures pictures;
  const absl::Status status = PlotRuns(request, &pictures);
  for (const std::string& note : pictures.notes) std::cerr << note << "\n";
  if (flags.json) {
    std::cout << PicturesJson(pictures);
  } else {
    for (const std::string& path : pictures.drawn) {
      std::cout << path << ".svg " << path << ".png\n";
    }
  }
  if (!status.ok()) std::cerr << status.message() << "\n";
  return PlotExitCode(status);
}

}  // namespace

void AddPlotCommand(CLI::App& app, int* exit_code) {
  CLI::App* command = app.add_subcommand(
      "plot", "Draw loss, accuracy, staleness and a timeline of runs");
  auto flags = std::make_shared<PlotFlags>();
  PlotRequest& request = flags->request;
  command->add_option("run", request.runs, "Run folders, real or simulated")
      ->required();
  command
      ->add_option("--out", request.out,
                   "Folder of the pictures; those there are replaced")
      ->capture_default_str();
  command
      ->add_option("--label", request.labels,
                   "Name of a run in the pictures, once for each run in "
                   "their order; default: the folder's name")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command
      ->add_option("--updates", request.options.updates,
                   "Updates of the timeline")
      ->capture_default_str()
      ->check(WholeFrom(1, 1000));
  command
      ->add_option("--workers", request.options.workers,
                   "Show at most so many workers of a run in the timeline")
      ->capture_default_str()
      ->check(WholeFrom(1, 256));
  command->add_option("--gnuplot", request.gnuplot, "The program that draws")
      ->capture_default_str();
  command->add_flag("--json", flags->json, "Print one JSON object");
  command->callback([flags, exit_code] { *exit_code = Plot(*flags); });
}

}  // namespace sluice
