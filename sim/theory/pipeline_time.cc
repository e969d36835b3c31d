// Each stage makes its passes in a fixed order, and each pass begins when the
// stage is free and its input is there: the activations of the stage before, or
// the gradient of the stage behind. Of two stages that share the work, with two
// micro-batches of 3 s (1 s forward, 2 s backward in one process) and links
// that take no time:
//
//   stage 0   F0 F1   B0 B0       B1 B1      F: 0.5 s, B: 1 s
//   stage 1      F0 B0 B0 F1 B1 B1
#include "sim/theory/pipeline_time.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "common/job/delay_model.h"
#include "common/job/group.h"
#include "common/job/stage_plan.h"
#include "common/status_macros.h"

namespace sluice {
namespace {

// A gap may be so many seconds short of a pass. Tasks begin at whole
// nanoseconds and passes do not end there, so a gap of exactly a pass's length
// is found by this alone.
constexpr double kShort = 2e-9;

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
  const double all = period * static_cast<double>(computing.size());
  return all > 0 ? std::max(0.0, 1 - sum / all) : 0;
}

PipelineTime::PipelineTime(std::vector<Stage> stages, int passes,
                           double latency, int slots)
    : stages_(std::move(stages)),
      passes_(passes),
      latency_(latency),
      slots_(slots) {
  SLUICE_CHECK(!stages_.empty() && passes_ >= 1 && slots_ >= 1);
}

absl::StatusOr<PipelineTime> PipelineTime::OfJob(const ResolvedJob& job) {
  if (!IsGroup(job.job)) return PipelineTime();
  SLUICE_ASSIGN_OR_RETURN(
      const DelayModel latency,
      DelayModel::Create(job.job.delays().latency(), job.job.seed(),
                         "delays.latency", job.job.cluster().workers()));
  const double bandwidth = job.job.delays().worker_bandwidth();
  const auto samples = std::min<double>(job.job.data().batch_size(),
                                        job.job.worker().micro_batch());
  std::vector<Stage> stages = Shares(job);
  for (size_t s = 0; s < stages.size(); ++s) {
    stages[s].replicas = ReplicasOf(job.job, static_cast<int>(s));
  }
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
                      latency.Mean(), SlotsOf(job.job));
}

TaskUse PipelineTime::Task(double whole, int batches) const {
  GroupSchedule group(this);
  TaskUse use;
  use.seconds = group.Begin(0, 0, whole, batches);
  use.period = use.seconds;
  std::vector<int> done(slots_, 1);  // Tasks, by slot.
  if (slots_ > 1) {
    // From when the slots have found their places among each other.
    constexpr int kFirst = 20, kThen = 200;
    std::vector<double> ends(slots_, 0);
    ends[0] = use.seconds;
    double begin = 0;
    for (int task = 1; task <= (kFirst + kThen) * slots_; ++task) {
      const auto next = std::min_element(ends.begin(), ends.end());
      const double now = *next;
      use.seconds = group.Begin(static_cast<int>(next - ends.begin()), now,
                                whole, batches);
      *next = now + use.seconds;
      if (task == kFirst * slots_) {
        begin = now;
        done.assign(slots_, 0);
      } else {
        ++done[next - ends.begin()];
      }
      use.period = (now - begin) / (kThen * slots_);
    }
  }
  const int all = std::accumulate(done.begin(), done.end(), 0);
  for (const Stage& stage : stages_) {
    std::vector<double> of_replica(stage.replicas, 0);
    for (int slot = 0; slot < slots_; ++slot) {
      of_replica[slot % stage.replicas] += done[slot];
    }
    for (const double tasks : of_replica) {
      use.computing.push_back((stage.forward + stage.backward) * whole * tasks /
                              all);
    }
  }
  return use;
}

GroupSchedule::GroupSchedule(const PipelineTime* time) : time_(*time) {
  for (const PipelineTime::Stage& stage : time_.stages_) {
    calendars_.emplace_back(stage.replicas);
  }
}

double GroupSchedule::Begin(int slot, double now, double whole, int batches) {
  if (time_.slots_ == 1) now = 0;  // Nobody is in its way.
  if (time_.slots_ == 1 && time_.stages_.size() == 1) return whole;
  for (std::vector<Calendar>& stage : calendars_) {
    for (Calendar& calendar : stage) {
      std::erase_if(calendar,
                    [now](const Busy& busy) { return busy.end <= now; });
    }
  }
  const double pass = whole / batches / time_.passes_;
  double end = now;
  for (int batch = 0; batch < batches; ++batch) end = Batch(slot, end, pass);
  return end - now;
}

void GroupSchedule::Cancel(int slot, double now) {
  for (std::vector<Calendar>& stage : calendars_) {
    for (Calendar& calendar : stage) {
      std::erase_if(calendar, [slot, now](const Busy& busy) {
        return busy.slot == slot && busy.begin >= now;
      });
    }
  }
}

double GroupSchedule::FreeFrom(const Calendar& calendar, double earliest,
                               double seconds) {
  for (const Busy& busy : calendar) {
    if (busy.begin + kShort >= earliest + seconds) break;
    earliest = std::max(earliest, busy.end);
  }
  return earliest;
}

double GroupSchedule::Batch(int slot, double now, double pass) {
  const std::vector<PipelineTime::Stage>& stages = time_.stages_;
  const int count = static_cast<int>(stages.size());
  const int passes = time_.passes_;
  std::vector<Progress> all(count);
  for (Progress& at : all) at.free = at.link_down = at.link_up = now;
  all[0].activations.assign(passes, now);
  // Each round makes a pass wherever one can be made.
  while (all[0].backwards < passes) {
    for (int s = 0; s < count; ++s) {
      Progress& at = all[s];
      const bool forward = at.forwards < passes &&
                           at.forwards < at.backwards + PassesAtOnce(count, s);
      const int i = forward ? at.forwards : at.backwards;
      std::vector<double>& input = forward ? at.activations : at.gradients;
      if (i == passes || i >= static_cast<int>(input.size())) continue;
      const double seconds =
          pass * (forward ? stages[s].forward : stages[s].backward);
      Calendar& calendar = calendars_[s][slot % stages[s].replicas];
      const double begin =
          FreeFrom(calendar, std::max(at.free, input[i]), seconds);
      at.free = begin + seconds;
      if (time_.slots_ > 1) {
        const Busy busy = {begin, at.free, slot};
        calendar.insert(
            std::upper_bound(
                calendar.begin(), calendar.end(), begin,
                [](double at, const Busy& other) { return at < other.begin; }),
            busy);
      }
      ++(forward ? at.forwards : at.backwards);
      if (forward && s + 1 < count) {
        at.link_down = std::max(at.link_down, at.free) + stages[s].sending;
        all[s + 1].activations.push_back(at.link_down + time_.latency_);
      } else if (forward) {
        at.gradients.push_back(at.free);  // The loss's own.
      } else if (s > 0) {
        at.link_up = std::max(at.link_up, at.free) + stages[s - 1].sending;
        all[s - 1].gradients.push_back(at.link_up + time_.latency_);
      }
    }
  }
  return all[0].free;
}

}  // namespace sluice
