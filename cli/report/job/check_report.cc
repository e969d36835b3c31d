#include "cli/report/job/check_report.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/formats/image_list.h"
#include "common/job/data_shape.h"
#include "common/job/group.h"
#include "common/job/job_counts.h"
#include "common/job/job_learning_rate.h"
#include "common/job/learning_rate.h"
#include "common/job/resolved_job.h"
#include "common/job/stage_plan.h"
#include "common/wire/job_wire_types.h"
#include "common/wire/wire_format.h"
#include "ps_server/coordinator/policy/batch_schedule.h"
#include "ps_server/coordinator/policy/k_schedule.h"
#include "ps_server/shard/optimizer.h"
#include "sim/theory/theory.h"

namespace sluice {
namespace {

constexpr int64_t kFloat = sizeof(float);

int64_t Product(const std::vector<int64_t>& shape) {
  int64_t product = 1;
  for (const int64_t dimension : shape) product *= dimension;
  return product;
}

std::vector<int> ShardsOf(const TensorSpec& tensor,
                          const ParameterLayout& layout) {
  std::vector<int> shards;
  for (int s = 0; s < layout.shards(); ++s) {
    const ParameterRange range = layout.range(ShardId(s));
    if (range.begin < tensor.offset + tensor.size &&
        tensor.offset < range.end) {
      shards.push_back(s);
    }
  }
  return shards;
}

ShardMemory MemoryOf(const ParameterRange& range, const proto::Job& job) {
  const int64_t slice = range.size() * kFloat;
  ShardMemory memory;
  // A checkpoint that is being written holds one version.
  const int checkpoints = job.has_checkpoint() ? 1 : 0;
  memory.weights = slice * (1 + job.limits().max_held() + checkpoints);
  memory.optimizer_state =
      slice * Optimizer::StateArrays(job.optimizer()) * (1 + checkpoints);
  // What is folded is one slice more.
  memory.staged_gradients =
      slice * (job.limits().staged_gradients() + (FoldsGradients(job) ? 1 : 0));
  return memory;
}

// Numbers of one sample in the layers: backward needs the output of every
// layer, and two gradients as large as the largest of them. A flatten layer
// needs none of its own, unless it `moves` the numbers.
int64_t NumbersOf(const std::vector<LayerPlan>& layers, bool moves) {
  int64_t numbers = 0;
  int64_t largest = layers.empty() ? 0 : Product(layers[0].input_shape);
  for (const LayerPlan& layer : layers) {
    if (layer.layer.has_flatten() && !moves) continue;
    numbers += Product(layer.output_shape) + NumbersOf(layer.body, moves) +
               NumbersOf(layer.projection, moves);
    largest = std::max(largest, Product(layer.output_shape));
  }
  return numbers + 2 * largest;
}

// Bytes of the activations of `samples` samples with `input` numbers each. With
// 16-bit numbers the inputs are converted, too, unless an embedding reads them.
int64_t Activations(const ResolvedJob& job, int64_t samples, int64_t input) {
  const proto::Worker::Precision precision = job.job.worker().precision();
  const bool narrow =
      precision == proto::Worker::BF16 || precision == proto::Worker::FP16;
  const int64_t numbers = NumbersOf(job.model.layers, /*moves=*/narrow);
  if (!narrow) return samples * numbers * kFloat;
  const bool embedded = job.model.layers[0].layer.has_embedding();
  return samples * (numbers + (embedded ? 0 : input)) * 2;
}

// Whether a task is of exactly one version. Then the worker pulls the next
// version's weights while it computes a task of this one.
bool IsSynchronous(const proto::Job& job) {
  const proto::Policy policy = job.sync().policy();
  return policy == proto::SYNC || policy == proto::K_SYNC ||
         policy == proto::K_BATCH_SYNC;
}

// Bytes of `samples` samples: `input` numbers and a label or target each.
int64_t DataBytes(const ResolvedJob& job, int64_t samples, int64_t input) {
  const proto::Data& data = job.job.data();
  if (data.has_external()) return 0;  // The model process has them.
  // A generator keeps its patterns only, and makes samples when needed.
  if (data.has_synthetic_images()) {
    return data.synthetic_images().classes() * input * kFloat;
  }
  if (data.has_text()) return samples * input;
  if (data.has_jpeg()) return samples * kListedImageBytes;
  // Images are kept as bytes.
  return samples * (input + 1) * (HasImages(data) ? int64_t{1} : kFloat);
}

// `passes`: forward passes that come before the first's backward.
WorkerMemory MemoryOfWorker(const ResolvedJob& job, int passes = 1) {
  const int64_t batch_size = job.job.data().batch_size();
  const int64_t samples =
      std::min<int64_t>(batch_size, job.job.worker().micro_batch());
  const int64_t input = Product(job.data.input_shape);
  WorkerMemory memory;
  const int64_t vector = job.layout.size() * kFloat;
  if (job.job.model().has_external()) {
    // What the worker shares with its model process, whose own is unknown: the
    // samples are their numbers.
    memory.weights = 2 * vector;
    memory.gradient = vector;
    memory.batch = (batch_size + 1) * job.job.sync().local_steps() * 8;
    return memory;
  }
  // Local steps move a copy of the weights and sum their gradients.
  // Micro-batches sum theirs, too.
  const int steps = job.job.sync().local_steps() > 1 ? 1 : 0;
  const int parts = samples < batch_size ? 1 : 0;
  memory.weights = vector * (1 + (IsSynchronous(job.job) ? 1 : 0) + steps);
  memory.gradient = vector * (1 + steps + parts);
  memory.activations = passes * Activations(job, samples, input);
  // With its labels, or one target a sample; and the next to be computed.
  const bool ahead = steps + parts > 0 || job.job.data().has_jpeg();
  memory.batch = samples * (input + job.data.labels) * kFloat * (ahead ? 2 : 1);
  memory.training_data = DataBytes(job, job.data.train_samples, input);
  return memory;
}

// With what a member is handed by its neighbours, for each pass; and each slot
// has memory of its own.
MemberReport ReportOfMember(const ResolvedJob& job, int member) {
  const int number = StageOfMember(job.job, member);
  const auto slots =
      static_cast<int64_t>(SlotsOfMember(job.job, member).size());
  const ModelStage stage = StagesOf(job)[number];
  const ResolvedJob own = JobOfStage(job, number);
  const std::vector<LayerPlan>& layers = own.model.layers;
  const int passes = PassesAtOnce(StageCount(job.job), number);
  const int64_t samples = std::min<int64_t>(job.job.data().batch_size(),
                                            job.job.worker().micro_batch());
  int64_t handed = 0;
  if (stage.begin > 0) handed += Product(own.model.input_shape);
  if (stage.end < job.model.layers.size()) {
    handed += Product(layers.back().output_shape);
  }
  MemberReport report;
  report.stage = number;
  report.layers = absl::StrCat(layers.front().name, " to ", layers.back().name);
  report.floats = own.layout.size();
  report.multiply_adds = stage.multiply_adds;
  report.memory = MemoryOfWorker(own, passes);
  report.memory.activations += passes * samples * handed * kFloat;
  report.memory.batch *= passes;
  for (int64_t* each : {&report.memory.weights, &report.memory.gradient,
                        &report.memory.activations, &report.memory.batch}) {
    *each *= slots;
  }
  return report;
}

// The evaluator of a model in stages has the weights of one at a time, and of a
// block of test samples what a stage has made for the next: no more than the
// largest stage's weights, or kBlock (worker/pipeline/staged_measure.h). One of
// a whole model has less than a worker.
int64_t EvaluatorBytes(const ResolvedJob& job) {
  constexpr int64_t kBlock = 64 << 20;
  const int stages = StageCount(job.job);
  if (stages == 1) return MemoryOfWorker(job).total();
  const int64_t samples = job.job.evaluation().batch_size();
  const int64_t input = Product(job.data.input_shape);
  int64_t largest = 0, cut = 0, activations = 0;
  for (int s = 0; s < stages; ++s) {
    const ResolvedJob own = JobOfStage(job, s);
    largest = std::max(largest, own.layout.size() * kFloat);
    cut = std::max(cut, Product(own.model.layers.back().output_shape) * kFloat);
    activations += Activations(own, samples, input);
  }
  const int64_t block =
      std::min(std::max(largest, kBlock), job.data.test_samples * cut);
  return largest + block + activations +
         samples * (input + job.data.labels) * kFloat +
         DataBytes(job, job.data.test_samples, input);
}

int64_t BatchesPerEpoch(const ResolvedJob& job) {
  return JobGrid(job.job, job.data.train_samples).batches_per_epoch();
}

// How many gradients an update takes, as sync.k_schedule changes it.
struct GradientCounts {
  int first;  // The update from version 0.
  int least;
  int most;
};

GradientCounts GradientsOf(const proto::Job& job) {
  const int first = KSchedule(job.sync(), job.cluster().workers()).k();
  GradientCounts counts = {.first = first, .least = first, .most = first};
  const proto::KSchedule& schedule = job.sync().k_schedule();
  for (const proto::KChange& change : schedule.by_version().change()) {
    counts.least = std::min(counts.least, change.k());
    counts.most = std::max(counts.most, change.k());
  }
  // An adaptive K never falls.
  counts.most = std::max(counts.most, schedule.adaptive().max_k());
  return counts;
}

UpdateCost CostOf(const ResolvedJob& job, int64_t batches_per_epoch) {
  const proto::Job& j = job.job;
  const ParameterRange all = {0, job.layout.size()};
  const WireFormat format(job.layout.statistics());
  const WireTypes types = JobWireTypes(j);
  const GradientCounts counts = GradientsOf(j);
  UpdateCost cost;
  cost.least_gradients = counts.least;
  cost.gradients = counts.most;
  switch (j.sync().policy()) {
    case proto::K_SYNC:
    case proto::K_BATCH_SYNC:
      // Every worker starts a task at every version.
      cost.pulls = std::max(cost.gradients, MostWorkers(j.cluster()));
      break;
    default:
      cost.pulls = cost.gradients;  // One for each gradient.
  }
  cost.push_bytes = cost.gradients * format.Bytes(types.push, all);
  cost.pull_bytes = cost.pulls * format.Bytes(types.pull, all);
  const double tasks =
      static_cast<double>(batches_per_epoch) / j.sync().local_steps();
  cost.per_epoch = tasks / counts.most;
  cost.most_per_epoch = tasks / counts.least;
  return cost;
}

RateReport RatesOf(const ResolvedJob& job) {
  const LearningRateOptions options =
      JobLearningRate(job.job, job.data.train_samples);
  const GradientCounts counts = GradientsOf(job.job);
  const auto warmed_up = static_cast<int64_t>(
      options.warmup_samples > 0 ? options.warmup_samples + 1 : 0);
  return {.first = LearningRate(options, 0, counts.first),
          .least_after_warmup = LearningRate(options, warmed_up, counts.least),
          .after_warmup = LearningRate(options, warmed_up, counts.most)};
}

double StalenessOf(const proto::Job& job) {
  const double unbounded = ExpectedStaleness(
      job.sync().policy(), MostWorkers(job.cluster()), GradientsOf(job).first);
  const proto::Staleness& staleness = job.sync().staleness();
  switch (staleness.action()) {
    case proto::Staleness::DROP:
    case proto::Staleness::CANCEL:
      // No gradient that is staler is applied.
      return std::min<double>(unbounded, staleness.bound());
    default:
      return unbounded;
  }
}

std::vector<std::string> WarningsOf(const proto::Job& job,
                                    double expected_staleness) {
  std::vector<std::string> warnings;
  const double momentum = job.optimizer().sgd().momentum();
  if (momentum > 0 && expected_staleness > 1) {
    warnings.push_back(absl::StrCat(
        "optimizer.sgd.momentum is ", momentum,
        " and a gradient will be about ", expected_staleness,
        " versions stale: stale gradients act like more momentum (Mitliagkas "
        "et al. 2016), and the run may diverge; lower the momentum or the "
        "learning rate, or bound sync.staleness"));
  }
  const int factors = job.delays().worker_factor_size();
  if (factors > MostWorkers(job.cluster())) {
    warnings.push_back(absl::StrCat("delays.worker_factor has ", factors,
                                    " entries, one for each worker "
                                    "from worker 0 on: those behind the first ",
                                    MostWorkers(job.cluster()),
                                    " are of no worker of this job"));
  }
  const int others = (GroupsOf(job) - 1) * SlotsOf(job);
  const bool one_per_worker = job.sync().policy() == proto::K_SYNC ||
                              job.sync().policy() == proto::K_ASYNC;
  const int k = GradientsOf(job).most;
  if (SlotsOf(job) > 1 && others > 0 && one_per_worker && k > others) {
    warnings.push_back(absl::StrCat(
        k == job.sync().k() ? "sync.k is " : "sync.k_schedule goes up to ", k,
        ", and while one of ", GroupsOf(job), " groups is gone there are ",
        others,
        " workers (worker.group.slots of each other group): updates then wait "
        "for it, or take what there is (sync.on_shortage)"));
  }
  return warnings;
}

}  // namespace

DescriptorNeeds DescriptorsOf(const proto::Job& job) {
  // Of a process itself: standard streams, port, gRPC's wake-ups, GPU, files of
  // the run, and what a listener keeps free (common/rpc/listener.h).
  constexpr int64_t kOwn = 64;
  const int64_t shards = job.cluster().shards();
  const int64_t evaluators = job.evaluation().enabled() ? 1 : 0;
  const int64_t sessions = MostWorkers(job.cluster()) + evaluators;
  const int64_t clients =
      (MostWorkers(job.cluster()) + evaluators) * StageCount(job);
  const int64_t links = StageCount(job) > 1 ? 2 : 0;  // Of each slot.
  // With clients of the same host a shard shares memory over a socket.
  const int64_t shared = job.wire().shared_memory() == proto::Wire::OFF ? 0 : 1;
  const int64_t bulk = clients * (1 + shared);
  return {.lead = sessions + bulk + (shards - 1) + kOwn,
          .shard = bulk + 1 + kOwn,
          .worker = (shards * (1 + shared) + 1 + links) * SlotsOf(job) + kOwn};
}

CheckReport MakeCheckReport(const ResolvedJob& job) {
  CheckReport report;
  for (const TensorSpec& tensor : job.layout.tensors()) {
    report.tensor_shards.push_back(ShardsOf(tensor, job.layout));
  }
  for (int s = 0; s < job.layout.shards(); ++s) {
    report.shards.push_back(MemoryOf(job.layout.range(ShardId(s)), job.job));
  }
  if (job.job.has_checkpoint()) {
    const int arrays = 1 + Optimizer::StateArrays(job.job.optimizer());
    report.checkpoint_bytes = arrays * job.layout.size() * kFloat;
  }
  report.worker = MemoryOfWorker(job);
  for (int m = 0; IsGroup(job.job) && m < MembersOf(job.job); ++m) {
    report.members.push_back(ReportOfMember(job, m));
  }
  if (job.job.evaluation().enabled()) {
    report.evaluator_bytes = EvaluatorBytes(job);
  }
  report.descriptors = DescriptorsOf(job.job);
  report.batches_per_epoch = BatchesPerEpoch(job);
  report.update = CostOf(job, report.batches_per_epoch);
  report.rate = RatesOf(job);
  report.expected_staleness = StalenessOf(job.job);
  const auto action = job.job.sync().staleness().action();
  report.staleness_is_bounded = action == proto::Staleness::DROP ||
                                action == proto::Staleness::CANCEL ||
                                action == proto::Staleness::WAIT;
  report.warnings = WarningsOf(job.job, report.expected_staleness);
  return report;
}

}  // namespace sluice
