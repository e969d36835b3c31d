#include "worker/external/external_measure.h"

#include "absl/time/time.h"
#include "common/ids.h"
#include "common/status_macros.h"
#include "worker/external/external_gradient.h"

namespace sluice {

absl::StatusOr<std::unique_ptr<ExternalMeasure>> ExternalMeasure::Start(
    const ResolvedJob& job, std::vector<std::string> command) {
  ModelProcess::Options options;
  options.command = std::move(command);
  options.description = DescriptionOf(job, WorkerId(0));
  options.description.role = ModelDescription::Role::kEvaluator;
  options.start_limit = absl::Seconds(job.job.limits().start_timeout_s());
  options.silence_limit = absl::Seconds(job.job.limits().task_deadline_s());
  options.end_limit = absl::Seconds(job.job.limits().model_process_end_s());
  SLUICE_ASSIGN_OR_RETURN(std::unique_ptr<ModelProcess> process,
                          ModelProcess::Start(std::move(options)));
  return std::unique_ptr<ExternalMeasure>(
      new ExternalMeasure(std::move(process)));
}

}  // namespace sluice
