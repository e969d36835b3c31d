// The worker: computes gradients for the coordinator that the job names.
// Exit codes: common/exit_codes.h.

#include <cstdint>
#include <string>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "common/daemon_log.h"
#include "common/descriptor_limit.h"
#include "common/file_mode.h"
#include "common/rpc/malloc_tuning.h"
#include "common/rpc/polling.h"
#include "common/stop_signal.h"
#include "worker/daemon.h"
#include "worker/run_worker.h"

int main(int argc, char** argv) {
  sluice::TuneMallocForChunks();
  sluice::PollQueuesApart();
  sluice::RaiseDescriptorLimit();
  sluice::StopSignal::Block();

  CLI::App app("Computes gradients for the coordinator of a job.", "worker");
  sluice::DaemonFlags flags;
  sluice::AddDaemonFlags(&app, &flags);
  int64_t id = 0;
  app.add_option("--worker", id, "number of this worker, from 0")
      ->required()
      ->check(CLI::NonNegativeNumber);
  std::string timeline;
  app.add_option("--timeline", timeline,
                 "file to add what this worker does to, as a Chrome trace");
  if (const auto code = sluice::ParseFlags(argc, argv, &app)) return *code;
  const sluice::DaemonLog log(absl::StrCat("worker-", id), flags.log,
                              flags.debug);

  const auto job = sluice::LoadDaemonJob(flags);
  if (!job.ok()) return sluice::UsageExitCode(job.status());
  sluice::LetRead(job->job.output().mode());
  return sluice::ExitCode(
      sluice::RunWorker(*job, sluice::WorkerId(id), timeline));
}
