// Trains a SYNC job in this process alone and prints the SHA-256 of the final
// weights, for comparison with the daemons. Exit code 1: it failed; 2: bad
// usage or a bad job.

#include <cstdio>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "common/job/resolved_job.h"
#include "common/process/command_line.h"
#include "common/status_macros.h"
#include "kernels/device.h"
#include "kernels/numerics.h"
#include "worker/compute/job_sampling.h"
#include "worker/data/data_source.h"
#include "worker/model/make_device.h"
#include "worker/model/model.h"
#include "worker/reference/reference_trainer.h"

namespace {

absl::StatusOr<sluice::ReferenceResult> Train(const sluice::ResolvedJob& job) {
  SLUICE_ASSIGN_OR_RETURN(const auto device,
                          sluice::MakeDevice(job.job.worker(), 0));
  SLUICE_ASSIGN_OR_RETURN(
      const auto model,
      sluice::Model::Create(job, sluice::JobMicroBatch(job), device.get()));
  SLUICE_ASSIGN_OR_RETURN(
      const auto data,
      sluice::OpenDataSource(job.job.data(), sluice::Split::kTrain,
                             job.job.seed()));
  sluice::kernels::SetNumericMode();
  device->EnterThread();
  return sluice::TrainReference(job, *data, model.get());
}

int Fail(const absl::Status& status, int code) {
  std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
  return code;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Trains a SYNC job in one process.", "reference_train");
  std::string path;
  std::vector<std::string> overrides;
  app.add_option("--job", path, "job file (textproto)")->required();
  app.add_option("--set", overrides,
                 "override a field of the job, as sync.k=3; repeatable")
      ->allow_extra_args(false);
  if (const auto code = sluice::ParseCommandLine(argc, argv, &app))
    return *code;
  const auto job = sluice::LoadJob(path, overrides);
  if (!job.ok()) return Fail(job.status(), 2);
  const auto result = Train(*job);
  if (!result.ok()) return Fail(result.status(), 1);
  std::printf("version %lld weights_sha256 %s\n",
              static_cast<long long>(result->version.value()),
              result->weights_sha256.c_str());
  return 0;
}
