// One parameter-server shard; shard 0 also leads the run.

#include <variant>

#include "absl/strings/str_cat.h"
#include "common/files/file_mode.h"
#include "common/job/resolved_job.h"
#include "common/process/descriptor_limit.h"
#include "common/process/exit_codes.h"
#include "common/process/lock_order.h"
#include "common/process/process_setup.h"
#include "common/process/stop_signal.h"
#include "common/rpc/malloc_tuning.h"
#include "common/rpc/polling.h"
#include "common/telemetry/daemon_log.h"
#include "common/telemetry/log_value.h"
#include "ps_server/flags.h"
#include "ps_server/shard_daemon.h"
#include "third_party/spdlog.h"

namespace {

int Exit(const absl::Status& status) {
  if (status.ok()) return 0;
  spdlog::error("event=failed error={}", sluice::LogValue(status.message()));
  if (absl::IsInvalidArgument(status)) return sluice::kExitUsage;
  if (absl::IsPermissionDenied(status)) return sluice::kExitSuperseded;
  return sluice::AsksForRestart(status) ? sluice::kExitRestart
                                        : sluice::kExitFailed;
}

}  // namespace

int main(int argc, char** argv) {
  sluice::SetUpProcess();
  sluice::TuneMallocForChunks();
  sluice::LeaveLockOrderUnwatched();
  sluice::PollQueuesApart();
  sluice::RaiseDescriptorLimit();
  sluice::StopSignal::Block();

  const auto parsed = sluice::ParseFlags(argc, argv);
  if (const int* code = std::get_if<int>(&parsed)) return *code;
  const auto& flags = std::get<sluice::Flags>(parsed);
  const sluice::DaemonLog log(absl::StrCat("ps_server-", flags.shard),
                              flags.log, flags.debug);

  const auto job = sluice::LoadJob(flags.job, flags.overrides);
  if (!job.ok()) {
    spdlog::error("event=failed error={}",
                  sluice::LogValue(job.status().message()));
    return absl::IsUnavailable(job.status()) ? sluice::kExitRestart
                                             : sluice::kExitUsage;
  }
  sluice::LetRead(job->job.output().mode());
  sluice::ShardDaemon daemon(&flags, &*job);
  sluice::StopSignal signal([&](const std::string& name) {
    if (flags.yield) return daemon.Yield(name);
    daemon.RequestStop(absl::StrCat("stopped by ", name));
  });
  return Exit(daemon.Run());
}
