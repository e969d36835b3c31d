#include "worker/workbench.h"

#include <utility>

#include "absl/time/time.h"
#include "common/status_macros.h"
#include "kernels/numerics.h"
#include "spdlog/spdlog.h"
#include "worker/job_sampling.h"
#include "worker/model/make_device.h"

namespace sluice {
namespace {

void LogRefusal(const absl::Status& why) {
  spdlog::warn("event=not_recorded reason=\"{}\"", std::string(why.message()));
}

absl::StatusOr<Workbench> MakeBench(const ResolvedJob& job, WorkerId id,
                                    int batch_size, Split split,
                                    std::shared_ptr<const DataSource> data) {
  Workbench bench;
  SLUICE_ASSIGN_OR_RETURN(bench.device, MakeDevice(job.job.worker(), id));
  SLUICE_ASSIGN_OR_RETURN(bench.model,
                          Model::Create(job, batch_size, bench.device.get(),
                                        {.on_refused = LogRefusal}));
  bench.data = std::move(data);
  if (bench.data != nullptr) return bench;
  SLUICE_ASSIGN_OR_RETURN(
      bench.data, OpenDataSource(job.job.data(), split, job.job.seed()));
  return bench;
}

}  // namespace

void Workbench::Enter() const {
  kernels::SetNumericMode();
  device->EnterThread();
}

absl::StatusOr<Workbench> MakeTrainingBench(
    const ResolvedJob& job, WorkerId id,
    std::shared_ptr<const DataSource> data) {
  return MakeBench(job, id, JobMicroBatch(job), Split::kTrain, std::move(data));
}

absl::StatusOr<Workbench> MakeTestBench(
    const ResolvedJob& job, std::shared_ptr<const DataSource> data) {
  return MakeBench(job, WorkerId(0), job.job.evaluation().batch_size(),
                   Split::kTest, std::move(data));
}

Trainer::Options TrainerOptionsFromJob(const ResolvedJob& job) {
  Trainer::Options options;
  options.gradient = JobTaskGradient(job);
  options.parameters = job.layout.size();
  return options;
}

Evaluator::Options EvaluatorOptionsFromJob(const ResolvedJob& job,
                                           std::string weights_path) {
  Evaluator::Options options;
  options.batch_size = job.job.evaluation().batch_size();
  options.classification = job.data.classification;
  options.weights_path = std::move(weights_path);
  // As long as the coordinator waits for one that is made again.
  options.deadline = 2 * absl::Seconds(job.job.limits().task_deadline_s());
  return options;
}

}  // namespace sluice
