// The evaluator: measures pinned versions on the test split and saves the
// final weights. Exit codes: common/exit_codes.h.

#include <string>

#include "CLI/CLI.hpp"
#include "common/daemon_log.h"
#include "common/descriptor_limit.h"
#include "common/file_mode.h"
#include "common/rpc/malloc_tuning.h"
#include "common/rpc/polling.h"
#include "common/stop_signal.h"
#include "worker/daemon.h"
#include "worker/run_evaluator.h"

int main(int argc, char** argv) {
  sluice::TuneMallocForChunks();
  sluice::PollQueuesApart();
  sluice::RaiseDescriptorLimit();
  sluice::StopSignal::Block();

  CLI::App app("Measures versions of a job on its test split.", "evaluator");
  sluice::DaemonFlags flags;
  sluice::AddDaemonFlags(&app, &flags);
  std::string run_dir;
  app.add_option("--run-dir", run_dir,
                 "folder for weights.safetensors. Default: output.run_dir");
  if (const auto code = sluice::ParseFlags(argc, argv, &app)) return *code;
  const sluice::DaemonLog log("evaluator", flags.log, flags.debug);

  const auto job = sluice::LoadDaemonJob(flags);
  if (!job.ok()) return sluice::UsageExitCode(job.status());
  sluice::LetRead(job->job.output().mode());
  return sluice::ExitCode(sluice::RunEvaluator(*job, run_dir));
}
