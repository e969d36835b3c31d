// Replays the generations of a lineage one after the other. The weights and the
// optimizer's arrays at the end of one generation are the start of the next
// one, in place of the checkpoint that the real run restored.
//
// Within a generation each logged update is one step: compute its gradients at
// their logged bases, execute the Commit, compare. A gradient may be based on
// an old version, so Replay holds snapshots:
//
//   update  entries (base of the gradient)  held before it  dropped after it
//        5  4, 3                            3, 4            3
//        6  4, 5                            4, 5            4, 5
//
// Invariant: held_[i] holds exactly the versions of slice i (a shard, or what a
// member of a worker pulled of one) that an update still to be replayed is
// based on. PlanReplay has found the last use of each in advance, so memory
// does not grow with the length of the run.
#include "sim/replay.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <utility>
#include <variant>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/files/input_file.h"
#include "common/formats/safetensors.h"
#include "common/grant.h"
#include "common/ids.h"
#include "common/job/resolved_job.h"
#include "common/status_macros.h"
#include "nlohmann/json.hpp"
#include "proto/commit_log.pb.h"
#include "ps_server/coordinator/log/commit_log_file.h"
#include "ps_server/coordinator/log/generations.h"
#include "ps_server/shard/tensor_digests.h"
#include "sim/local_training.h"
#include "worker/model/make_device.h"
#include "worker/reference/weights_digest.h"

namespace sluice {
namespace {

// Turns a commit log into the order of a replay, and refuses logs that cannot
// be true. The log is untrusted input: the checks here are what allows Replay
// to look up bases and decisions without checking again.
//
//   - Commits have the versions begin + 1, begin + 2, ... without a gap.
//   - A base is at least the version the generation began with, and below the
//     version of its update: update 5 of a generation that restored version 3
//     may have gradients of bases 3 and 4 only.

// The part of one generation's commit log that determines its bits, in replay
// order.
struct ReplayPlan {
  Generation generation;
  Version begin;  // The version it restored; 0 for the first generation.
  std::vector<proto::LogCommit> commits;  // Versions begin + 1, + 2, ...
  // Learning rate of a task's local steps; only for tasks with several steps.
  absl::flat_hash_map<GradientKey, double> local_rates;
  // What each base of a gradient is of.
  std::vector<ShardSlice> slices;
  // By slice: each version that a gradient was computed at, with the last
  // update that needs it.
  std::vector<std::map<Version, Version>> last_use;
  // By (version, shard).
  std::map<std::pair<Version, ShardId>, std::vector<uint64_t>> digests;
};

absl::Status CheckEntry(const proto::LogCommit& commit,
                        const proto::LogEntry& entry, Version begin,
                        int shards) {
  const std::string what = absl::StrCat(
      "the commit log: version ", commit.version(), ", gradient of worker ",
      entry.worker(), " for mini-batch ", entry.first_batch(), ": ");
  if (entry.shard_base_size() != shards) {
    return absl::DataLossError(absl::StrCat(what, "bases of ",
                                            entry.shard_base_size(),
                                            " shards, expected ", shards));
  }
  for (const int64_t base : entry.shard_base()) {
    if (base >= begin.value() && base < commit.version()) continue;
    return absl::DataLossError(absl::StrCat(what, "computed at version ", base,
                                            ", expected ", begin.value(),
                                            " to ", commit.version() - 1));
  }
  if (entry.batches() < 1 || entry.first_batch() < 0) {
    return absl::DataLossError(
        absl::StrCat(what, "of ", entry.batches(), " mini-batches"));
  }
  return absl::OkStatus();
}

absl::Status AddCommit(const proto::LogCommit& commit, int shards,
                       ReplayPlan* plan) {
  const int64_t expected =
      plan->begin.value() + static_cast<int64_t>(plan->commits.size()) + 1;
  if (commit.version() != expected) {
    return absl::DataLossError(absl::StrCat("the commit log: version ",
                                            commit.version(), " comes where ",
                                            expected, " is expected"));
  }
  for (const proto::LogEntry& entry : commit.entry()) {
    SLUICE_RETURN_IF_ERROR(CheckEntry(commit, entry, plan->begin, shards));
    for (int s = 0; s < shards; ++s) {
      plan->last_use[s][Version(entry.shard_base(s))] =
          Version(commit.version());
    }
  }
  plan->commits.push_back(commit);
  return absl::OkStatus();
}

void AddDigests(const proto::LogDigests& digests, ReplayPlan* plan) {
  plan->digests[{Version(digests.version()), ShardId(digests.shard())}].assign(
      digests.digest().begin(), digests.digest().end());
}

GradientKey KeyOf(Generation generation, const proto::LogEntry& entry) {
  return {generation, WorkerId(entry.worker()),
          Incarnation(entry.incarnation()), Sequence(entry.sequence())};
}

// Checks that every version is there once and in order, and that each gradient
// was computed at versions that existed, of each of `slices`. kDataLoss names
// the first violation.
absl::StatusOr<ReplayPlan> PlanReplay(const CommitLog& log,
                                      std::vector<ShardSlice> slices) {
  const int shards = static_cast<int>(slices.size());
  ReplayPlan plan;
  plan.slices = std::move(slices);
  plan.generation = Generation(log.header.generation());
  plan.begin = Version(log.header.restored_version());
  plan.last_use.resize(shards);
  for (const proto::LogRecord& record : log.records) {
    switch (record.kind_case()) {
      case proto::LogRecord::kCommit:
        SLUICE_RETURN_IF_ERROR(AddCommit(record.commit(), shards, &plan));
        break;
      case proto::LogRecord::kTask: {
        const proto::LogTask& task = record.task();
        if (task.local_learning_rate() == 0) break;
        plan.local_rates[{plan.generation, WorkerId(task.worker()),
                          Incarnation(task.incarnation()),
                          Sequence(task.sequence())}] =
            task.local_learning_rate();
        break;
      }
      case proto::LogRecord::kDigests:
        AddDigests(record.digests(), &plan);
        break;
      case proto::LogRecord::kHeader:
      case proto::LogRecord::kEnd:
      case proto::LogRecord::kInstructionSet:
      case proto::LogRecord::kInputs:
      case proto::LogRecord::KIND_NOT_SET:
        break;
    }
  }
  return plan;
}

// Signs this process's own grants, which never leave it.
constexpr char kSecret[] = "of this process";

bool SameBits(double a, double b) {
  return std::memcmp(&a, &b, sizeof(a)) == 0;
}

class Replay {
 public:
  Replay(const ResolvedJob& job, const ReplayPlan& plan,
         LocalTraining* training, ReplayReport* report)
      : layout_(job.layout),
        plan_(plan),
        training_(*training),
        report_(*report),
        held_(plan.slices.size()) {}

  absl::Status Run() {
    SLUICE_RETURN_IF_ERROR(
        Execute(Restore{plan_.generation, plan_.begin, kSecret}));
    Hold(plan_.begin);
    for (const proto::LogCommit& commit : plan_.commits) {
      SLUICE_RETURN_IF_ERROR(Update(commit));
    }
    return absl::OkStatus();
  }

 private:
  absl::Status Execute(AnyDecision what) {
    const Decision decision{++number_, std::move(what)};
    for (int s = 0; s < training_.shards(); ++s) {
      SLUICE_RETURN_IF_ERROR(training_.Execute(ShardId(s), decision).status());
    }
    return absl::OkStatus();
  }

  // Computes the update's gradients, applies the update and compares.
  absl::Status Update(const proto::LogCommit& logged) {
    Commit commit;
    commit.version = Version(logged.version());
    commit.learning_rate = logged.learning_rate();
    for (const proto::LogEntry& entry : logged.entry()) {
      SLUICE_RETURN_IF_ERROR(Compute(commit.version, entry));
      commit.entries.push_back(
          {KeyOf(plan_.generation, entry), entry.weight()});
    }
    const Version version = commit.version;
    SLUICE_RETURN_IF_ERROR(Execute(std::move(commit)));
    report_.version = version;
    Forget(version);
    Hold(version);
    CompareDigests(version);
    return absl::OkStatus();
  }

  absl::Status Compute(Version version, const proto::LogEntry& entry) {
    const GradientKey key = KeyOf(plan_.generation, entry);
    proto::Task task;
    task.mutable_key()->set_generation(key.generation.value());
    task.mutable_key()->set_worker(key.worker.value());
    task.mutable_key()->set_incarnation(key.incarnation.value());
    task.mutable_key()->set_sequence(key.sequence.value());
    task.set_grant(GrantKey(kSecret).GrantFor(key));
    task.set_first_batch(entry.first_batch());
    task.set_batches(entry.batches());
    const auto rate = plan_.local_rates.find(key);
    if (rate != plan_.local_rates.end()) {
      task.set_local_learning_rate(rate->second);
    }
    Snapshots weights;
    for (size_t i = 0; i < held_.size(); ++i) {
      weights.push_back(
          held_[i].at(Version(entry.shard_base(static_cast<int>(i)))));
    }
    SLUICE_ASSIGN_OR_RETURN(
        const Trainer::Answer answer,
        training_.Compute(task, std::move(weights), plan_.slices));
    ++report_.gradients;
    const std::string what = absl::StrCat(
        "worker ", entry.worker(), ", mini-batch ", entry.first_batch(), ": ");
    if (const auto* rejected = std::get_if<proto::Rejected>(&answer)) {
      return absl::DataLossError(
          absl::StrCat("version ", version.value(), ", ", what,
                       "recomputed, it is refused: ", rejected->reason()));
    }
    CompareLoss(version, what, entry, std::get<proto::Ready>(answer));
    return absl::OkStatus();
  }

  void CompareLoss(Version version, const std::string& what,
                   const proto::LogEntry& entry, const proto::Ready& ready) {
    if (report_.difference.update.has_value()) return;
    if (ready.samples() != entry.samples()) {
      report_.difference.gradient =
          absl::StrCat(what, entry.samples(), " samples in the log, ",
                       ready.samples(), " recomputed");
    } else if (!SameBits(ready.loss(), entry.loss())) {
      report_.difference.gradient =
          absl::StrCat(what, "loss ", entry.loss(), " in the log, ",
                       ready.loss(), " recomputed");
    } else {
      return;
    }
    report_.difference.update = version;
  }

  void CompareDigests(Version version) {
    ReplayDifference& difference = report_.difference;
    if (difference.version.has_value()) return;
    bool any = false;
    for (int s = 0; s < training_.shards(); ++s) {
      const auto recorded = plan_.digests.find({version, ShardId(s)});
      if (recorded == plan_.digests.end()) continue;
      const ParameterRange range = layout_.range(ShardId(s));
      const auto digests =
          TensorDigests(*training_.Newest(ShardId(s)),
                        training_.shard(ShardId(s)).grid(), layout_, range);
      const auto tensors = TensorsIn(layout_, range);
      for (size_t t = 0; t < digests.size(); ++t) {
        ++report_.digests;
        if (t < recorded->second.size() && digests[t] == recorded->second[t]) {
          continue;
        }
        difference.version = version;
        difference.tensor = tensors[t]->name;
        return;
      }
      any = true;
    }
    if (any) difference.agrees = version;
  }

  // Keeps `version` if a later update needs it.
  void Hold(Version version) {
    for (size_t i = 0; i < held_.size(); ++i) {
      if (plan_.last_use[i].contains(version)) {
        held_[i][version] = training_.Newest(plan_.slices[i].shard);
      }
    }
  }

  // Drops the versions that update `version` was the last to need.
  void Forget(Version version) {
    for (size_t i = 0; i < held_.size(); ++i) {
      std::erase_if(held_[i], [&](const auto& held) {
        return plan_.last_use[i].at(held.first) <= version;
      });
    }
  }

  const ParameterLayout& layout_;
  const ReplayPlan& plan_;
  LocalTraining& training_;
  ReplayReport& report_;

  int64_t number_ = 0;  // Number of the last decision.
  // By slice: the versions that a later update needs.
  std::vector<std::map<Version, std::shared_ptr<const WeightStore::Snapshot>>>
      held_;
};

// Returns the job with as many shards as the generation of `log` had.
absl::StatusOr<ResolvedJob> JobOf(const CommitLog& log,
                                  const ResolvedJob& newest) {
  const bool split = !log.header.base_begin().empty();
  for (const proto::LogRecord& record : log.records) {
    if (record.commit().entry().empty()) continue;
    const int shards = split ? log.header.shards()
                             : record.commit().entry(0).shard_base_size();
    if (shards == newest.layout.shards()) break;
    return ParseJob(FormatJob(newest.job), "job.textproto",
                    {absl::StrCat("cluster.shards=", shards)});
  }
  return newest;
}

// Replays one generation from the state in `*arrays` and leaves its last state
// there.
absl::Status ReplayGeneration(const ResolvedJob& newest, const CommitLog& log,
                              std::vector<std::vector<float>>* arrays,
                              ReplayReport* report) {
  SLUICE_ASSIGN_OR_RETURN(const ResolvedJob job, JobOf(log, newest));
  const auto& begins = log.header.base_begin();
  SLUICE_ASSIGN_OR_RETURN(
      const ReplayPlan plan,
      PlanReplay(log, job.layout.SlicesCutAt({begins.begin(), begins.end()})));
  const auto stored = [arrays](const Restore&, ParameterRange range) {
    std::vector<std::vector<float>> parts;
    for (const std::vector<float>& array : *arrays) {
      parts.emplace_back(array.begin() + range.begin,
                         array.begin() + range.end);
    }
    return parts;
  };
  SLUICE_ASSIGN_OR_RETURN(
      const auto training,
      LocalTraining::Create(job, /*weights_path=*/"", {}, stored));
  SLUICE_RETURN_IF_ERROR(Replay(job, plan, training.get(), report).Run());
  *arrays = training->Arrays();
  return absl::OkStatus();
}

// The weights' hash in the run's summary; empty if there is none.
std::string RecordedHash(const std::string& run_dir, Version version) {
  const auto file = InputFile::Open(absl::StrCat(run_dir, "/summary.json"));
  if (!file.ok()) return "";
  std::string text(file->size(), '\0');
  if (!file->ReadAt(0, file->size(), text.data()).ok()) return "";
  const auto summary = nlohmann::json::parse(text, nullptr, false);
  if (!summary.is_object() || !summary.contains("weights_sha256") ||
      !summary["weights_sha256"].is_string() ||
      !summary.contains("test_version") ||
      summary["test_version"] != version.value()) {
    return "";
  }
  return summary["weights_sha256"];
}

// Finds the first tensor that differs from the run's weights file, if it has
// one.
void CompareFinal(const std::string& run_dir, const ParameterLayout& layout,
                  const std::vector<float>& weights, ReplayReport* report) {
  ReplayDifference& difference = report->difference;
  if (difference.version.has_value()) return;
  const auto recorded =
      ReadSafetensors(absl::StrCat(run_dir, "/weights.safetensors"), layout);
  if (!recorded.ok()) return;
  for (const TensorSpec& tensor : layout.tensors()) {
    if (std::memcmp(weights.data() + tensor.offset,
                    recorded->data() + tensor.offset,
                    tensor.size * sizeof(float)) == 0) {
      continue;
    }
    difference.version = report->version;
    difference.tensor = tensor.name;
    return;
  }
}

// Has `job` compute with what the workers of the run agreed on, if they did.
// kFailedPrecondition: this machine lacks it.
absl::Status TakeInstructions(const Lineage& lineage, proto::Job* job) {
  proto::InstructionSet agreed = proto::INSTRUCTION_SET_UNSPECIFIED;
  for (const CommitLog& log : lineage.logs) {
    agreed = std::max(agreed, log.header.past().instruction_set());
    for (const proto::LogRecord& record : log.records) {
      agreed = std::max(agreed, record.instruction_set());
    }
  }
  const proto::InstructionSet own = OwnInstructionSet(*job);
  if (std::min(own, agreed) == proto::INSTRUCTION_SET_UNSPECIFIED) {
    return absl::OkStatus();
  }
  if (own < agreed) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the run computed with ", proto::InstructionSet_Name(agreed),
        ", this machine has no wider instructions than ",
        proto::InstructionSet_Name(own)));
  }
  job->mutable_worker()->set_instruction_set(agreed);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ReplayReport> ReplayRun(const std::string& run_dir) {
  SLUICE_ASSIGN_OR_RETURN(ResolvedJob job,
                          LoadJob(absl::StrCat(run_dir, "/job.textproto"), {}));
  job.job.mutable_worker()->clear_gpus();  // This machine may have other GPUs.
  SLUICE_ASSIGN_OR_RETURN(const Lineage lineage, ReadLineage(run_dir));
  const proto::LogHeader& newest = lineage.logs.back().header;
  if (newest.job_fingerprint() != job.fingerprint) {
    return absl::DataLossError(absl::StrCat(
        run_dir, ": the commit log is of job ", newest.job_fingerprint(),
        ", job.textproto is ", job.fingerprint));
  }
  SLUICE_RETURN_IF_ERROR(TakeInstructions(lineage, &job.job));
  ReplayReport report;
  std::vector<std::vector<float>> arrays;
  for (const CommitLog& log : lineage.logs) {
    SLUICE_RETURN_IF_ERROR(ReplayGeneration(job, log, &arrays, &report));
  }
  report.torn = lineage.logs.back().torn;
  const std::vector<float>& weights = arrays.front();
  report.weights_sha256 = WeightsSha256(weights);
  report.recorded_sha256 = RecordedHash(run_dir, report.version);
  // Only then it is known that the file is of this version.
  if (!report.recorded_sha256.empty() &&
      report.recorded_sha256 != report.weights_sha256) {
    CompareFinal(run_dir, job.layout, weights, &report);
  }
  return report;
}

}  // namespace sluice
