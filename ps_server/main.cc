// One parameter-server shard; shard 0 also leads the run.

#include <variant>

#include "absl/strings/str_cat.h"
#include "common/daemon_log.h"
#include "common/resolved_job.h"
#include "common/rpc/malloc_tuning.h"
#include "common/rpc/polling.h"
#include "common/stop_signal.h"
#include "ps_server/flags.h"
#include "ps_server/shard_server.h"
#include "spdlog/spdlog.h"

namespace {

// The run failed; bad usage or a bad job.
constexpr int kFailed = 1;
constexpr int kUsage = 2;

int Exit(const absl::Status& status) {
  if (status.ok()) return 0;
  spdlog::error("event=failed error=\"{}\"", std::string(status.message()));
  return absl::IsInvalidArgument(status) ? kUsage : kFailed;
}

}  // namespace

int main(int argc, char** argv) {
  sluice::TuneMallocForChunks();
  sluice::PollQueuesApart();
  sluice::StopSignal::Block();

  const auto parsed = sluice::ParseFlags(argc, argv);
  if (const int* code = std::get_if<int>(&parsed)) return *code;
  const auto& flags = std::get<sluice::Flags>(parsed);
  sluice::LogToStderr(absl::StrCat("ps_server-", flags.shard), flags.debug);

  const auto job = sluice::LoadJob(flags.job, flags.overrides);
  if (!job.ok()) {
    spdlog::error("event=bad_job error=\"{}\"",
                  std::string(job.status().message()));
    return kUsage;
  }
  auto server = sluice::ShardServer::Start(flags, *job);
  if (!server.ok()) return Exit(server.status());

  absl::Status status;
  {
    sluice::StopSignal signal([&](const std::string& name) {
      (*server)->RequestStop(absl::StrCat("stopped by ", name));
    });
    status = (*server)->Run();
  }
  server->reset();  // So that why it failed is the last that is said.
  return Exit(status);
}
