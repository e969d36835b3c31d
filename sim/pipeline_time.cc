// Each stage makes its passes in a fixed order, and each pass begins when the
// stage is free and its input is there: the activations of the stage before, or
// the gradient of the stage behind. Of two stages that share the work, with two
// micro-batches of 3 s (1 s forward, 2 s backward in one process) and links
// that take no time:
//
//   stage 0   F0 F1   B0 B0       B1 B1      F: 0.5 s, B: 1 s
//   stage 1      F0 B0 B0 F1 B1 B1
#include "sim/pipeline_time.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/delay_model.h"
#include "common/stage_plan.h"
#include "common/status_macros.h"

namespace sluice {
namespace {

// One stage of a mini-batch that is being computed.
struct Progress {
  int forwards = 0, backwards = 0;  // That have ended.
  double free = 0;
  std::vector<double> activations, gradients;  // Arrived, by micro-batch.
  double link_down = 0, link_up = 0;           // When each can send again.
};

// What each stage computes, without its links.
std::vector<PipelineTime::Stage> Shares(const ResolvedJob& job) {
  std::vector<PipelineTime::Stage> stages;
  for (const proto::StageTime& stage : job.job.delays().stage()) {
    stages.push_back({stage.forward(), stage.backward()});
  }
  if (stages.empty()) {
    for (const ModelStage& stage : StagesOf(job)) {
      stages.push_back({stage.multiply_adds, 2 * stage.multiply_adds});
    }
  }
  double all = 0;
  for (const auto& stage : stages) all += stage.forward + stage.backward;
  for (auto& stage : stages) {
    stage.forward /= all;
    stage.backward /= all;
  }
  return stages;
}

}  // namespace

double TaskUse::Bubble() const {
  double sum = 0;
  for (const double seconds : computing) sum += seconds;
  const double all = seconds * static_cast<double>(computing.size());
  return all > 0 ? std::max(0.0, 1 - sum / all) : 0;
}

PipelineTime::PipelineTime(std::vector<Stage> stages, int passes,
                           double latency)
    : stages_(std::move(stages)), passes_(passes), latency_(latency) {
  SLUICE_CHECK(!stages_.empty() && passes_ >= 1);
}

absl::StatusOr<PipelineTime> PipelineTime::OfJob(const ResolvedJob& job) {
  if (MembersOf(job.job) == 1) return PipelineTime();
  SLUICE_ASSIGN_OR_RETURN(
      const DelayModel latency,
      DelayModel::Create(job.job.delays().latency(), job.job.seed(),
                         "delays.latency", job.job.cluster().workers()));
  const double bandwidth = job.job.delays().worker_bandwidth();
  const auto samples = std::min<double>(job.job.data().batch_size(),
                                        job.job.worker().micro_batch());
  std::vector<Stage> stages = Shares(job);
  for (size_t s = 0; bandwidth > 0 && s < stages.size(); ++s) {
    double floats = samples;
    const size_t end = StagesOf(job)[s].end;
    for (const int64_t size : job.model.layers[end - 1].output_shape) {
      floats *= static_cast<double>(size);
    }
    stages[s].sending = sizeof(float) * floats / bandwidth;
  }
  const double passes = std::ceil(job.job.data().batch_size() / samples);
  return PipelineTime(std::move(stages), static_cast<int>(passes),
                      latency.Mean());
}

double PipelineTime::Seconds(double whole, int batches) const {
  return stages_.size() == 1 ? whole : batches * Batch(whole / batches);
}

TaskUse PipelineTime::Task(double whole, int batches) const {
  TaskUse use;
  use.seconds = Seconds(whole, batches);
  for (const Stage& stage : stages_) {
    use.computing.push_back((stage.forward + stage.backward) * whole);
  }
  return use;
}

double PipelineTime::Batch(double whole) const {
  const int stages = static_cast<int>(stages_.size());
  const double pass = whole / passes_;
  std::vector<Progress> all(stages);
  all[0].activations.assign(passes_, 0);
  // Each round makes a pass wherever one can be made.
  while (all[0].backwards < passes_) {
    for (int s = 0; s < stages; ++s) {
      Progress& at = all[s];
      const bool forward = at.forwards < passes_ &&
                           at.forwards < at.backwards + PassesAtOnce(stages, s);
      const int i = forward ? at.forwards : at.backwards;
      std::vector<double>& input = forward ? at.activations : at.gradients;
      if (i == passes_ || i >= static_cast<int>(input.size())) continue;
      const double share = forward ? stages_[s].forward : stages_[s].backward;
      at.free = std::max(at.free, input[i]) + share * pass;
      ++(forward ? at.forwards : at.backwards);
      if (forward && s + 1 < stages) {
        at.link_down = std::max(at.link_down, at.free) + stages_[s].sending;
        all[s + 1].activations.push_back(at.link_down + latency_);
      } else if (forward) {
        at.gradients.push_back(at.free);  // The loss's own.
      } else if (s > 0) {
        at.link_up = std::max(at.link_up, at.free) + stages_[s - 1].sending;
        all[s - 1].gradients.push_back(at.link_up + latency_);
      }
    }
  }
  return all[0].free;
}

}  // namespace sluice
