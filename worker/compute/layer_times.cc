// A model asks for the weights of each layer before it computes it, and says
// when a layer's gradient is final (flow.h). When it does so is all that is
// looked at here: what lies between two parts' weights is the forward pass of
// the first, and what lies between two final parts the backward pass of the
// second. Where a mini-batch has several micro-batches, two are computed:
// forward is timed in the first, for whose weights is asked, and backward in
// the second, whose gradient is added to the first's and then final.
//
//   asked for      part 0   part 1   part 2   backward begins
//   forward          |  0     |  1     |  2     |
//   final                                       |  2     |  1     |  0     |
#include "worker/compute/layer_times.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <numeric>
#include <thread>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "common/clock.h"
#include "common/job/initial_weights.h"
#include "common/process/named_thread.h"
#include "common/status_macros.h"
#include "worker/compute/compute_context.h"
#include "worker/compute/job_sampling.h"
#include "worker/task/cancel_token.h"
#include "worker/task/flow.h"
#include "worker/task/task_progress.h"

namespace sluice {
namespace {

constexpr int kFewest = 3;

// A float that was asked for, or said to be final, and when.
struct Mark {
  int64_t at = 0;
  absl::Time when;
};

class TimedWeights final : public WeightSource {
 public:
  explicit TimedWeights(absl::Span<const float> values) : values_(values) {}

  absl::Span<const float> values() const override { return values_; }
  absl::StatusOr<OrRestarted<int64_t>> WaitUntil(int64_t end) override {
    marks.push_back({end, Clock::Real()->Now()});
    return end;  // No more, so that the next part is asked for, too.
  }
  absl::Time BeginOf(const ModelStage& part) const {
    return std::find_if(
               marks.begin(), marks.end(),
               [&](const Mark& mark) { return mark.at >= part.parameters.end; })
        ->when;
  }

  std::vector<Mark> marks;

 private:
  const absl::Span<const float> values_;
};

class TimedGradient final : public GradientSink {
 public:
  explicit TimedGradient(absl::Span<float> values) : values_(values) {}

  absl::Span<float> values() override { return values_; }
  absl::Status FinalFrom(int64_t from) override {
    marks.push_back({from, Clock::Real()->Now()});
    return absl::OkStatus();
  }
  absl::Time EndOf(const ModelStage& part) const {
    return std::find_if(marks.begin(), marks.end(),
                        [&](const Mark& mark) {
                          return mark.at <= part.parameters.begin;
                        })
        ->when;
  }

  std::vector<Mark> marks;

 private:
  const absl::Span<float> values_;
};

// When the backward passes begin.
std::vector<absl::Time> BackwardBegins(const TaskProgress& progress) {
  std::vector<absl::Time> begins;
  for (const TaskProgress::Span& span : progress.spans()) {
    if (span.stage == Stage::kBackward) begins.push_back(span.begin);
  }
  return begins;
}

// A model with all that its passes need.
class Subject {
 public:
  static absl::StatusOr<std::unique_ptr<Subject>> Make(const ResolvedJob& job) {
    auto subject = std::make_unique<Subject>();
    SLUICE_ASSIGN_OR_RETURN(subject->context_,
                            MakeTrainingContext(job, WorkerId(0)));
    const ComputeContext& context = subject->context_;
    if (context.device->accelerator() != nullptr) {
      return absl::InvalidArgumentError(absl::StrCat(
          "worker.device: layers are timed on the CPU only, this is ",
          context.DeviceName()));
    }
    SLUICE_ASSIGN_OR_RETURN(const InitialWeights first,
                            InitialWeights::Open(job));
    SLUICE_ASSIGN_OR_RETURN(subject->weights_,
                            first.Read({0, job.layout.size()}));
    subject->gradient_.resize(job.layout.size());
    std::vector<int64_t> samples(
        std::min<int64_t>(JobMicroBatch(job), context.data->size()));
    std::iota(samples.begin(), samples.end(), 0);
    SLUICE_RETURN_IF_ERROR(context.data->Gather(samples, &subject->batch_));
    subject->parts_ = SmallestStages(job.model);
    subject->several_ = JobMicroBatch(job) < job.job.data().batch_size();
    return subject;
  }

  // The thread that calls Time is to call it first.
  void Enter() const { context_.Enter(); }
  // A micro-batch's passes through the parts.
  absl::StatusOr<std::vector<LayerTime>> Time();

 private:
  ComputeContext context_;
  std::vector<float> weights_, gradient_;
  Batch batch_;
  std::vector<ModelStage> parts_;
  bool several_ = false;  // Micro-batches in a mini-batch.
};

absl::StatusOr<std::vector<LayerTime>> Subject::Time() {
  TimedWeights source(weights_);
  TimedGradient sink(absl::MakeSpan(gradient_));
  TaskProgress progress;
  int left = several_ ? 2 : 1;
  const float share = 1.0F / static_cast<float>(left);
  const auto next = [&] {
    return Model::Part{.batch = &batch_, .share = share, .last = --left == 0};
  };
  SLUICE_RETURN_IF_ERROR(context_.model
                             ->ComputeGradient({.next = next}, source, sink,
                                               CancelToken(), &progress)
                             .status());
  progress.End();
  std::vector<LayerTime> times;
  for (const ModelStage& part : parts_) times.push_back({.part = part});
  const std::vector<absl::Time> backward = BackwardBegins(progress);
  absl::Time until = backward.front();
  absl::Time since = backward.back();
  for (size_t i = parts_.size(); i-- > 0;) {
    const absl::Time begin = source.BeginOf(parts_[i]);
    const absl::Time end = sink.EndOf(parts_[i]);
    times[i].forward = absl::ToDoubleSeconds(until - begin);
    times[i].backward = absl::ToDoubleSeconds(end - since);
    until = begin;
    since = end;
  }
  return times;
}

double Median(std::vector<double> values) {
  const auto middle = values.begin() + values.size() / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Of each part by itself.
std::vector<LayerTime> Medians(
    const std::vector<std::vector<LayerTime>>& passes) {
  std::vector<LayerTime> medians = passes[0];
  for (size_t i = 0; i < medians.size(); ++i) {
    std::vector<double> forward, backward;
    for (const std::vector<LayerTime>& pass : passes) {
      forward.push_back(pass[i].forward);
      backward.push_back(pass[i].backward);
    }
    medians[i].forward = Median(std::move(forward));
    medians[i].backward = Median(std::move(backward));
  }
  return medians;
}

}  // namespace

absl::StatusOr<std::vector<LayerTime>> MeasureLayers(const ResolvedJob& job,
                                                     absl::Duration patience,
                                                     int at_once) {
  if (job.job.model().has_external()) {
    return absl::InvalidArgumentError(
        "model.external: expected layers of Sluice, whose times it can "
        "measure");
  }
  std::vector<std::unique_ptr<Subject>> subjects;
  for (int i = 0; i < at_once; ++i) {
    SLUICE_ASSIGN_OR_RETURN(subjects.emplace_back(), Subject::Make(job));
  }
  std::atomic<bool> over = false;
  std::vector<std::thread> others;
  const absl::Cleanup join = [&] {
    over = true;
    for (std::thread& other : others) other.join();
  };
  for (int i = 1; i < at_once; ++i) {
    others.push_back(StartThread("beside", [&over, beside = subjects[i].get()] {
      beside->Enter();
      while (!over && beside->Time().ok()) {
      }
    }));
  }
  Subject& subject = *subjects[0];
  subject.Enter();
  const absl::Time end = Clock::Real()->Now() + patience;
  std::vector<std::vector<LayerTime>> passes;
  // The first one touches memory for the first time.
  for (int pass = 0; pass <= kFewest || Clock::Real()->Now() < end; ++pass) {
    SLUICE_ASSIGN_OR_RETURN(std::vector<LayerTime> times, subject.Time());
    if (pass > 0) passes.push_back(std::move(times));
  }
  return Medians(passes);
}

}  // namespace sluice
