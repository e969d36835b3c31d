// What the shards of a FakeCluster do, and what becomes of checkpoints.
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "ps_server/coordinator/testing/fake_cluster.h"

namespace sluice {

void FakeCluster::StepShard(int64_t s) {
  Shard& shard = shards_[s];
  if (shard.writing.has_value() && now_ >= shard.writing->second) {
    StoredPart part;
    part.file = absl::StrCat("shard-", s, " at ", steps_);
    part.bytes = 1 + Draw(1000);
    if (Chance(faults_.disk_refuses)) part.error = "the disk is full";
    shard.stored.emplace_back(shard.writing->first, std::move(part));
    shard.writing.reset();
    return;
  }
  if (!shard.stored.empty() && Draw(2) == 0) return ReportStored(s);
  if (!shard.inbox.empty() && Draw(2) == 0) return Execute(s);
  if (shard.acknowledged == shard.executed && Draw(8) != 0) return;
  shard.acknowledged = shard.executed;
  if (shard.executed == 0) return;
  checker_.Executed(s, shard.executed);
  Actions actions;
  SLUICE_CHECK(coordinator_
                   .Executed(ShardId(s), shard.executed, shard.version, "",
                             now_, &actions)
                   .ok());
  Take(actions);
}

void FakeCluster::Execute(int64_t s) {
  Shard& shard = shards_[s];
  const Decision decision = std::move(shard.inbox.front());
  shard.inbox.pop_front();
  shard.executed = decision.number;
  if (const auto* commit = std::get_if<Commit>(&decision.what)) {
    shard.version = commit->version;
  } else if (const auto* begin = std::get_if<Restore>(&decision.what)) {
    shard.version = begin->version;
  } else if (const auto* store = std::get_if<Store>(&decision.what)) {
    BeginWriting(s, store->version);
  }
}

void FakeCluster::BeginWriting(int64_t s, Version version) {
  Shard& shard = shards_[s];
  if (shard.writing.has_value()) {
    StoredPart part;
    part.error = "the one before it is still being written";
    shard.stored.emplace_back(version, std::move(part));
    return;
  }
  const absl::Duration takes =
      Chance(faults_.disk_hangs)
          ? absl::Seconds(options_.job.limits().task_deadline_s()) *
                (1 + Draw(2))
          : absl::Milliseconds(Draw(500));
  shard.writing = {version, now_ + takes};
}

void FakeCluster::ReportStored(int64_t s) {
  const auto [version, part] = std::move(shards_[s].stored.front());
  // A session repeats what was not acknowledged.
  if (!Chance(faults_.duplicate)) shards_[s].stored.pop_front();
  checker_.Stored(s, version, part);
  Actions actions;
  SLUICE_CHECK(
      coordinator_.Stored(ShardId(s), version, part, now_, &actions).ok());
  Take(actions);
}

void FakeCluster::StepManifests() {
  if (manifests_.empty() || Draw(4) != 0) return;
  const Version version = manifests_.front();
  manifests_.pop_front();
  const std::string error =
      Chance(faults_.disk_refuses) ? "manifest: the disk is full" : "";
  checker_.ManifestWritten(version, error);
  Actions actions;
  coordinator_.ManifestWritten(version, error, now_, &actions);
  Take(actions);
}

}  // namespace sluice
