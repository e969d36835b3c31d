// Turns a commit log into the order of a replay, and refuses logs that cannot
// be true. The log is untrusted input: the checks here are what allows Replay
// to look up bases and decisions without checking again.
//
//   - Commits have the versions begin + 1, begin + 2, ... without a gap.
//   - A base is at least the version the generation began with, and below the
//     version of its update: update 5 of a generation that restored version 3
//     may have gradients of bases 3 and 4 only.
#include "sim/replay_plan.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace sluice {
namespace {

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

}  // namespace

GradientKey KeyOf(Generation generation, const proto::LogEntry& entry) {
  return {generation, WorkerId(entry.worker()),
          Incarnation(entry.incarnation()), Sequence(entry.sequence())};
}

absl::StatusOr<ReplayPlan> PlanReplay(const CommitLog& log, int shards) {
  ReplayPlan plan;
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
      case proto::LogRecord::KIND_NOT_SET:
        break;
    }
  }
  return plan;
}

}  // namespace sluice
