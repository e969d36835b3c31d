// The worker: computes gradients for the coordinator that the job names.
// Exit code 0: the run finished, or it was told to stop; 1: it failed; 2: bad
// usage or a bad job.

#include <cstdio>
#include <string>

#include "CLI/CLI.hpp"
#include "common/rpc/malloc_tuning.h"
#include "common/stop_signal.h"
#include "worker/daemon.h"
#include "worker/run_worker.h"

int main(int argc, char** argv) {
  sluice::TuneMallocForChunks();
  sluice::StopSignal::Block();

  CLI::App app("Computes gradients for the coordinator of a job.", "worker");
  sluice::DaemonFlags flags;
  sluice::AddDaemonFlags(&app, &flags);
  int64_t id = 0;
  app.add_option("--worker", id, "Number of this worker, from 0")
      ->required()
      ->check(CLI::NonNegativeNumber);
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
  const absl::Status status = sluice::RunWorker(*job, sluice::WorkerId(id));
  if (status.ok()) return 0;
  std::fprintf(stderr, "worker %lld: %s\n", static_cast<long long>(id),
               std::string(status.message()).c_str());
  return 1;
}
