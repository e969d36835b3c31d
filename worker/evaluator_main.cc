// The evaluator: measures pinned versions on the test split and saves the
// final weights. Exit code 0: the run finished, or it was told to stop; 1: it
// failed; 2: bad usage or a bad job.

#include <cstdio>
#include <string>

#include "CLI/CLI.hpp"
#include "common/rpc/malloc_tuning.h"
#include "common/stop_signal.h"
#include "worker/daemon.h"
#include "worker/run_evaluator.h"

int main(int argc, char** argv) {
  sluice::TuneMallocForChunks();
  sluice::StopSignal::Block();

  CLI::App app("Measures versions of a job on its test split.", "evaluator");
  sluice::DaemonFlags flags;
  sluice::AddDaemonFlags(&app, &flags);
  std::string run_dir;
  app.add_option("--run-dir", run_dir,
                 "Folder for weights.safetensors; default: not written");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }

  const auto job = sluice::Prepare(flags);
  if (!job.ok()) {
    std::fprintf(stderr, "%s\n", std::string(job.status().message()).c_str());
    return 2;
  }
  const absl::Status status = sluice::RunEvaluator(*job, run_dir);
  if (status.ok()) return 0;
  std::fprintf(stderr, "evaluator: %s\n",
               std::string(status.message()).c_str());
  return 1;
}
