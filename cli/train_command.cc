#include <unistd.h>

#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/job_flags.h"
#include "cli/launch/local_cluster.h"
#include "cli/launch/progress.h"
#include "cli/launch/train_run.h"
#include "cli/report/job/check.h"
#include "cli/report/job/check_report.h"
#include "common/clock.h"
#include "common/host_port.h"
#include "common/job/model_command.h"
#include "common/job/resolved_job.h"
#include "common/process/descriptor_limit.h"

namespace sluice {
namespace {

struct TrainFlags {
  JobFlags job;
  std::string run_dir;
  std::string resume;
  std::string run_id;
  bool timeline = false;
  std::string bin_dir;
  std::string tls;
  std::string http;
  int http_linger_s = 0;
  bool json = false;
  std::vector<std::string> command;  // Of the model processes.
};

int Train(const TrainFlags& flags) {
  std::ostream& progress = flags.json ? std::cerr : std::cout;
  const bool resume = !flags.resume.empty();
  absl::StatusOr<ResolvedJob> job =
      resume ? flags.job.LoadToResume(flags.resume) : flags.job.Load();
  if (!job.ok()) {
    std::cerr << job.status().message() << "\n";
    return 2;
  }
  const absl::Status agrees = CheckModelCommand(job->job, flags.command);
  if (!agrees.ok()) {
    std::cerr << agrees.message() << "\n";
    return 2;
  }
  if (!flags.http.empty()) {
    const absl::StatusOr<HostPort> at = ParseHostPort(flags.http);
    if (!at.ok() || at->port == 0) {
      std::cerr << "--http: expected host:port with a port above 0, is "
                << flags.http << "\n";
      return 2;
    }
    const HostPort shown = {at->IsEveryInterface() ? "localhost" : at->host,
                            at->port};
    progress << "The run is shown at http://" << shown.ToString() << "/\n";
  }
  const DescriptorNeeds needs = DescriptorsOf(job->job);
  if (needs.most() > GetDescriptorLimit().hard) {
    PrintDescriptors(needs, progress);
  }
  const TrainOptions options = {
      .run_dir = resume ? flags.resume : flags.run_dir,
      .resume = resume,
      .run_id = flags.run_id,
      .timeline = flags.timeline,
      .bin_dir = flags.bin_dir.empty() ? DefaultBinDir() : flags.bin_dir,
      .tls = flags.tls,
      .http = flags.http,
      .http_linger_s = flags.http_linger_s,
      .command = flags.command,
      .summary = flags.json ? &std::cout : nullptr,
      .columns = TerminalColumns(flags.json ? STDERR_FILENO : STDOUT_FILENO)};
  return RunTraining(*std::move(job), options, Clock::Real(), progress,
                     std::cerr);
}

}  // namespace

void AddTrainCommand(CLI::App& app, int* exit_code) {
  CLI::App* command =
      app.add_subcommand("train", "Train a job with processes on this machine");
  auto flags = std::make_shared<TrainFlags>();
  flags->job.AddTo(*command);
  CLI::Option* run_dir =
      command->add_option("--run-dir", flags->run_dir,
                          "Folder for the results, new or empty; default "
                          "runs/NAME-N");
  command
      ->add_option("--resume", flags->resume,
                   "Folder of a run that is to go on from its newest whole "
                   "checkpoint")
      ->excludes(run_dir);
  command->add_option("--tls", flags->tls,
                      "Folder that `sluice certs` has made for the job. "
                      "Default: plain text, on the loopback");
  CLI::Option* http = command->add_option(
      "--http", flags->http,
      "host:port on which the lead shows the run to browsers "
      "and Prometheus (docs/monitoring.md). Default: none");
  command
      ->add_option("--http-linger", flags->http_linger_s,
                   "Seconds for which the lead goes on showing how the run "
                   "stood in the end, so that Prometheus sees it; Ctrl-C ends "
                   "them")
      ->check(WholeFrom(0, 86400))
      ->needs(http)
      ->capture_default_str();
  command->add_option(
      "--run-id", flags->run_id,
      "Name of the run; with --resume the folder must hold that "
      "one. Default: drawn when it begins");
  command->add_flag("--timeline", flags->timeline,
                    "Workers write when they pulled, computed and pushed into "
                    "timeline.json, as a Chrome trace");
  command->add_option("--bin-dir", flags->bin_dir,
                      "Folder that holds ps_server/ and worker/ with the "
                      "daemons; default: beside the tool's own folder");
  command->add_flag("--json", flags->json,
                    "Print the run's summary.json at its end, and progress to "
                    "stderr");
  AddModelCommand(command, &flags->command);
  command->callback([flags, exit_code] { *exit_code = Train(*flags); });
}

}  // namespace sluice
