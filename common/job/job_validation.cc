// What a job may say, with its defaults filled in: a line for each rule, which
// says the field, what was expected and what came. All rules are looked at, so
// a user hears of every mistake at once:
//
//   cluster.workers: must be 1 to 65536, is 0
//   optimizer.sgd.nesterov: needs optimizer.sgd.momentum above 0, which is 0
//
// Bounds that are no rule of the field itself keep later arithmetic from
// overflowing (kMany). Rules of one layer are its own (common/layers/), and
// those between data and model need their shapes (resolved_job.cc).
#include <algorithm>
#include <cstdint>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/files/file_mode.h"
#include "common/host_port.h"
#include "common/job/data_shape.h"
#include "common/job/group.h"
#include "common/job/job_checker.h"
#include "common/job/job_counts.h"
#include "common/job/resolved_job.h"
#include "common/layers/layer_kind.h"

namespace sluice {
namespace {

// Far above any use, far below where a product of two could overflow.
constexpr int kMany = 1 << 20;

std::string Path(const std::string& prefix, const std::string& field) {
  return absl::StrCat(prefix, ".", field);
}

void CheckCluster(const proto::Job& job, Checker* check) {
  const proto::Cluster& cluster = job.cluster();
  check->Between("cluster.workers", cluster.workers(), 1, kMostWorkers);
  if (cluster.max_workers() != 0) {
    const bool fixed = job.data().sharding() == proto::Data::STATIC;
    check->Between("cluster.max_workers", cluster.max_workers(),
                   cluster.workers(), fixed ? cluster.workers() : kMostWorkers,
                   fixed ? " (cluster.workers, the partitions)"
                         : " (from cluster.workers)");
  }
  check->Between("cluster.shards", cluster.shards(), 1, 1024);
  if (cluster.coordinator().empty()) return;
  const absl::StatusOr<HostPort> at = ParseHostPort(cluster.coordinator());
  check->Require(at.ok(), "cluster.coordinator",
                 std::string(at.status().message()));
  check->Require(!at.ok() || !at->host.empty(), "cluster.coordinator",
                 "names no host");
}

template <typename AdamOrAdamW>
void CheckAdam(const std::string& prefix, const AdamOrAdamW& adam,
               Checker* check) {
  check->Share(Path(prefix, "beta1"), adam.beta1());
  check->Share(Path(prefix, "beta2"), adam.beta2());
  check->Epsilon(Path(prefix, "epsilon"), adam.epsilon());
  check->Between(Path(prefix, "weight_decay"), adam.weight_decay(), 0.0, 1e6);
}

void CheckSgd(const proto::Sgd& sgd, Checker* check) {
  check->Share("optimizer.sgd.momentum", sgd.momentum());
  check->Require(!sgd.nesterov() || sgd.momentum() != 0,
                 "optimizer.sgd.nesterov",
                 "needs optimizer.sgd.momentum above 0, which is 0");
  check->Between("optimizer.sgd.weight_decay", sgd.weight_decay(), 0.0, 1e6);
}

void CheckGroups(const proto::Job& job, Checker* check) {
  for (int i = 0; i < job.optimizer().group_size(); ++i) {
    const proto::TensorGroup& group = job.optimizer().group(i);
    const std::string path = absl::StrCat("optimizer.group[", i, "]");
    check->Require(group.tensor_size() > 0, Path(path, "tensor"),
                   "must name at least one tensor, names none");
    const std::string rate = Path(path, "learning_rate_factor");
    check->Between(rate, group.learning_rate_factor(), 0.0, 1e6);
    check->Require(
        job.sync().local_steps() == 1 || group.learning_rate_factor() == 1,
        rate,
        absl::StrCat("must be 1 with sync.local_steps above 1 (all tensors "
                     "make local steps at one rate), is ",
                     group.learning_rate_factor()));
    check->Between(Path(path, "weight_decay_factor"),
                   group.weight_decay_factor(), 0.0, 1e6);
  }
}

void CheckOptimizer(const proto::Optimizer& optimizer, Checker* check) {
  check->AboveZero("optimizer.learning_rate", optimizer.learning_rate(), 1e6);
  switch (optimizer.kind_case()) {
    case proto::Optimizer::kSgd:
      CheckSgd(optimizer.sgd(), check);
      break;
    case proto::Optimizer::kAdagrad:
      check->Epsilon("optimizer.adagrad.initial_accumulator",
                     optimizer.adagrad().initial_accumulator());
      check->Between("optimizer.adagrad.weight_decay",
                     optimizer.adagrad().weight_decay(), 0.0, 1e6);
      break;
    case proto::Optimizer::kAdam:
      CheckAdam("optimizer.adam", optimizer.adam(), check);
      break;
    case proto::Optimizer::kAdamw:
      CheckAdam("optimizer.adamw", optimizer.adamw(), check);
      break;
    case proto::Optimizer::kAveraging:
    case proto::Optimizer::KIND_NOT_SET:  // Has a default.
      break;
  }
}

void CheckSchedule(const proto::Job& job, Checker* check) {
  const proto::Schedule& schedule = job.schedule();
  if (schedule.has_step()) {
    const proto::StepDecay& step = schedule.step();
    if (step.at_epochs().empty()) {
      check->AboveZero("schedule.step.every_epochs", step.every_epochs());
    } else {
      check->Require(!step.has_every_epochs(), "schedule.step.every_epochs",
                     "must not be set with schedule.step.at_epochs");
    }
    for (int i = 0; i < step.at_epochs_size(); ++i) {
      const double least = i == 0 ? 0 : step.at_epochs(i - 1);
      check->Require(step.at_epochs(i) > least && step.at_epochs(i) <= 1e6,
                     absl::StrCat("schedule.step.at_epochs[", i, "]"),
                     absl::StrCat("must be above ", least,
                                  " and at most 1e6, is ", step.at_epochs(i)));
    }
    check->AboveZero("schedule.step.factor", step.factor(), 1);
  }
  if (schedule.has_cosine()) {
    const proto::Cosine& cosine = schedule.cosine();
    check->AboveZero("schedule.cosine.epochs", cosine.epochs());
    check->Between("schedule.cosine.final_factor", cosine.final_factor(), 0.0,
                   1.0);
  }
  check->Between("schedule.warmup_epochs", schedule.warmup_epochs(), 0.0, 1e6);
  check->Require(
      !schedule.linear_scaling() || job.optimizer().has_sgd(),
      "schedule.linear_scaling",
      "must be false without optimizer.sgd: the rule is one of plain SGD");
}

void CheckEvaluation(const proto::Job& job, Checker* check) {
  check->Between("evaluation.every_epochs", job.evaluation().every_epochs(),
                 0.0, 1e6);
  check->Require(
      !job.evaluation().enabled() || HasTestSplit(job.data()) ||
          job.evaluation().every_epochs() == 0,
      "evaluation.every_epochs",
      absl::StrCat("must be 0 without data.external.test_samples, is ",
                   job.evaluation().every_epochs()));
  check->Between("evaluation.batch_size", job.evaluation().batch_size(), 1,
                 kMany);
  check->AboveZero("output.metrics_every_s", job.output().metrics_every_s());
  check->AtLeast("output.digest_every_updates",
                 job.output().digest_every_updates(), 0);
  check->Require(
      ParseFileMode(job.output().mode()).has_value(), "output.mode",
      absl::StrCat(
          "must be an octal number of 0600 to 0666 that lets the owner "
          "read and write, is \"",
          job.output().mode(), "\""));
}

void CheckLimits(const proto::Job& job, Checker* check) {
  const proto::Limits& limits = job.limits();
  if (CanFoldGradients(job)) {
    check->AtLeast("limits.staged_gradients", limits.staged_gradients(), 1);
  } else {
    check->AtLeast("limits.staged_gradients", limits.staged_gradients(),
                   MostGradientsPerUpdate(job.sync()),
                   absl::StrCat(" (what one update needs under ",
                                proto::Policy_Name(job.sync().policy()),
                                job.sync().policy() == proto::SYNC
                                    ? ", but with on_bad_gradient: FAIL"
                                    : "",
                                ")"));
  }
  check->Between("limits.commit_window", limits.commit_window(), 1, 1024);
  check->Between("limits.chunk_bytes", limits.chunk_bytes(), 4096, 4194304);
  check->Require(
      limits.chunk_bytes() % 64 == 0, "limits.chunk_bytes",
      absl::StrCat("must be a multiple of 64, is ", limits.chunk_bytes()));
  check->Between("limits.max_held", limits.max_held(), 1, 1024);
  // Heartbeats come several times in a lease.
  check->Between("limits.lease_s", limits.lease_s(), 0.1, Checker::kLongest);
  check->AboveZero("limits.task_deadline_s", limits.task_deadline_s());
  check->AboveZero("limits.rejoin_timeout_s", limits.rejoin_timeout_s());
  check->AboveZero("limits.start_timeout_s", limits.start_timeout_s());
  check->AboveZero("limits.transfer_stall_s", limits.transfer_stall_s());
  check->AboveZero("limits.partition_timeout_s", limits.partition_timeout_s());
  check->Between("limits.regroup_timeout_s", limits.regroup_timeout_s(), 0.0,
                 Checker::kLongest);
  check->AboveZero("limits.storage_timeout_s", limits.storage_timeout_s());
  check->AboveZero("limits.model_process_end_s", limits.model_process_end_s());
}

void CheckCheckpoint(const proto::Job& job, Checker* check) {
  if (!job.has_checkpoint()) return;
  const proto::Checkpoint& checkpoint = job.checkpoint();
  check->AtLeast("checkpoint.every_updates", checkpoint.every_updates(), 0);
  check->Between("checkpoint.every_s", checkpoint.every_s(), 0.0,
                 Checker::kLongest);
  check->Require(checkpoint.every_updates() != 0 || checkpoint.every_s() != 0,
                 "checkpoint",
                 "must set every_updates or every_s above 0, sets neither");
  check->Between("checkpoint.keep", checkpoint.keep(), 1, 1024);
}

void CheckStop(const proto::Job& job, Checker* check) {
  const proto::Stop& stop = job.stop();
  check->Require(stop.has_epochs() || stop.has_updates() ||
                     stop.has_seconds() || stop.has_target_accuracy(),
                 "stop",
                 "must set at least one of epochs, updates, seconds, "
                 "target_accuracy");
  if (stop.has_epochs()) check->AboveZero("stop.epochs", stop.epochs(), 1e6);
  if (stop.has_updates()) check->AtLeast("stop.updates", stop.updates(), 1);
  if (stop.has_seconds()) check->AboveZero("stop.seconds", stop.seconds());
  if (!stop.has_target_accuracy()) return;
  check->AboveZero("stop.target_accuracy", stop.target_accuracy(), 1);
  check->Require(
      job.evaluation().enabled() && job.evaluation().every_epochs() > 0,
      "stop.target_accuracy",
      "needs evaluation.enabled and evaluation.every_epochs above 0");
  check->Require(!job.data().has_linear_regression(), "stop.target_accuracy",
                 "needs labels, which data.linear_regression does not have");
}

void CheckPrecision(const proto::Worker& worker, Checker* check) {
  check->Require(worker.precision() == proto::Worker::FP32 ||
                     worker.device() == proto::CUDA ||
                     worker.device() == proto::AUTO,
                 "worker.precision",
                 absl::StrCat("must be FP32 with worker.device ",
                              proto::Device_Name(worker.device()), ", is ",
                              proto::Worker::Precision_Name(worker.precision()),
                              ": only GPUs have others"));
}

// Of a group with several: what these cannot be.
void CheckSlots(const proto::Job& job, Checker* check) {
  const proto::Group& group = job.worker().group();
  const int slots = group.slots();
  check->Between("worker.group.slots", slots, 1, 64);
  const int replicas = group.replicas_size();
  check->Require(
      replicas == 0 || replicas == group.pipeline_stages(),
      "worker.group.replicas",
      absl::StrCat("must be ", group.pipeline_stages(),
                   " (worker.group.pipeline_stages), are ", replicas));
  for (int s = 0; s < replicas; ++s) {
    check->Between(absl::StrCat("worker.group.replicas[", s, "]"),
                   group.replicas(s), 1, std::max(1, slots),
                   " (worker.group.slots)");
  }
  const int64_t members = std::accumulate(group.replicas().begin(),
                                          group.replicas().end(), int64_t{0});
  check->Require(
      members <= kMostMembers, "worker.group.replicas",
      absl::StrCat("must be at most ", kMostMembers, " in all, are ", members));
  if (slots <= 1) return;
  const proto::Worker& worker = job.worker();
  check->Require(
      worker.device() == proto::CPU || worker.device() == proto::REFERENCE,
      "worker.device",
      absl::StrCat("must be CPU or REFERENCE with worker.group.slots ", slots,
                   ", is ", proto::Device_Name(worker.device())));
  const proto::Cluster& cluster = job.cluster();
  check->Require(cluster.workers() % slots == 0, "cluster.workers",
                 absl::StrCat("must be a multiple of ", slots,
                              " (worker.group.slots), is ", cluster.workers()));
  check->Require(cluster.max_workers() <= cluster.workers(),
                 "cluster.max_workers",
                 absl::StrCat("must be ", cluster.workers(),
                              " (cluster.workers) with worker.group.slots ",
                              slots, ", is ", cluster.max_workers()));
  check->Require(job.data().sharding() != proto::Data::STATIC,
                 "worker.group.slots",
                 absl::StrCat("must be 1 with data.sharding STATIC, whose "
                              "partitions belong to one process each, is ",
                              slots));
  check->Require(job.sync().warm_start_updates() == 0, "worker.group.slots",
                 absl::StrCat("must be 1 with sync.warm_start_updates, during "
                              "which one worker computes alone, is ",
                              slots));
}

// What a worker that computes alone in its process can do, and others cannot
// yet.
void CheckGroup(const proto::Job& job, Checker* check) {
  const proto::Worker& worker = job.worker();
  const int stages = worker.group().pipeline_stages();
  check->Between("worker.group.pipeline_stages", stages, 1, kMostMembers);
  CheckSlots(job, check);
  const int times = job.delays().stage_size();
  check->Require(times == 0 || times == stages, "delays.stage",
                 absl::StrCat("must be ", stages,
                              " (worker.group.pipeline_stages), are ", times));
  check->Require(stages > 1 || worker.group().cuts().empty(),
                 "worker.group.cuts",
                 "expected none with worker.group.pipeline_stages 1");
  if (stages == 1 && worker.group().slots() == 1) return;
  const std::string field =
      stages > 1 ? "worker.group.pipeline_stages" : "worker.group.slots";
  const int count = stages > 1 ? stages : worker.group().slots();
  const std::string with = absl::StrCat(" with ", field, " ", count);
  check->Require(
      !job.model().has_external(), field,
      absl::StrCat("must be 1 with model.external, whose layers Sluice does "
                   "not know, is ",
                   count));
  if (stages == 1) return;
  check->Require(worker.precision() != proto::Worker::FP16, "worker.precision",
                 absl::StrCat("must be FP32, TF32 or BF16", with,
                              ", is FP16: its loss is scaled for a model of "
                              "one process"));
  for (const auto& [name, type] : {std::pair("wire.pull", job.wire().pull()),
                                   std::pair("wire.push", job.wire().push())}) {
    check->Require(
        type != proto::FP16, name,
        absl::StrCat("must be FP32 or BF16", with,
                     ", is FP16: a cut may divide 16 floats of one scale"));
  }
}

void CheckWorker(const proto::Job& job, Checker* check) {
  const proto::Worker& worker = job.worker();
  check->Between("worker.threads", worker.threads(), 1, 256);
  check->Between("worker.clip_norm", worker.clip_norm(), 0.0, 1e6);
  CheckPrecision(worker, check);
  CheckGroup(job, check);
  check->Between("worker.micro_batch", worker.micro_batch(), 1, kMany);
  for (int i = 0; i < worker.gpus_size(); ++i) {
    check->Between(absl::StrCat("worker.gpus[", i, "]"), worker.gpus(i), 0,
                   1023);
  }
}

}  // namespace

std::vector<std::string> Validate(const proto::Job& job) {
  Checker check;
  check.Name("name", job.name());
  check.Enums("", job);
  CheckCluster(job, &check);
  CheckWorker(job, &check);
  CheckSync(job, &check);
  CheckOptimizer(job.optimizer(), &check);
  CheckGroups(job, &check);
  CheckSchedule(job, &check);
  CheckData(job.data(), job.evaluation().enabled(), &check);
  if (!job.model().has_external()) {
    CheckLayers("model.layer", job.model().layer(), &check);
  }
  CheckExternal(job, &check);
  CheckEvaluation(job, &check);
  CheckLimits(job, &check);
  CheckCheckpoint(job, &check);
  CheckStop(job, &check);
  CheckDelays(job.delays(), &check);
  return check.Take();
}

}  // namespace sluice
