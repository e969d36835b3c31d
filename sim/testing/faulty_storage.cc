// Checkpoints of a FaultyCluster. Shards write their parts and a coordinator
// writes its log and the manifests, with the production code, on a disk that
// fails.
//
// A write has two points in time: it begins when it is ordered, and takes
// effect when it completes, up to a second later or after a hang. If the
// process dies in between, KillShard and KillLead replay the write on a disk
// that stops at a random step (DoOrder, WriteHeld with a FaultyFiles), so that
// a torn write is left behind.
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "ps_server/checkpoint/background_writer.h"
#include "ps_server/checkpoint/manifest.h"
#include "ps_server/coordinator/log/generations.h"
#include "ps_server/coordinator/log/manifest_writer.h"
#include "ps_server/decisions/event_conversion.h"
#include "ps_server/shard_options_from_job.h"
#include "sim/testing/faulty_cluster.h"

namespace sluice {

// ---- A shard's part. ----

// The shard has just executed a Store, which holds `held`.
void FaultyCluster::BeginWriting(size_t index, Shard::HeldVersion held) {
  FaultyLife& life = *processes_[index].life;
  const Generation generation = life.shard->generation();
  if (life.writing.has_value()) {
    // As BackgroundWriter says.
    return Answer(
        index,
        StoredToProto(generation, held.version,
                      absl::ResourceExhaustedError("another is written")));
  }
  const VirtualTime takes = chance_.DrawWriting(
      absl::Milliseconds(800),
      absl::Seconds(options_.job.limits().task_deadline_s()));
  life.writing = {generation, std::move(held), queue_.now() + takes};
  At(index, takes, [this, index, generation] {
    const Version version = processes_[index].life->writing->held.version;
    const auto file = StoreHeld(index);
    Answer(index, StoredToProto(generation, version, file));
  });
}

// Writes the version that the shard holds; the disk may refuse it.
FaultyCluster::Written FaultyCluster::StoreHeld(size_t index) {
  FaultyLife& life = *processes_[index].life;
  FaultyFiles disk = chance_.DrawDisk();
  const Shard::HeldVersion& held = life.writing->held;
  CheckFloats(
      *life.shard, life.writing->generation, held.version.value(),
      held.arrays[0].chunks,
      absl::StrCat(Name(index), " stores version ", held.version.value()));
  auto file = WriteHeld(index, &disk);
  life.writing.reset();
  return file;
}

FaultyCluster::Written FaultyCluster::WriteHeld(size_t process,
                                                FaultyFiles* disk) const {
  const FaultyLife::Writing& writing = *processes_[process].life->writing;
  const ShardId shard(processes_[process].peer.id);
  const ShardFileIdentity identity = {
      .job_fingerprint = job_.fingerprint,
      .layout_fingerprint = LayoutFingerprint(layout_),
      .generation = writing.generation,
      .version = writing.held.version,
      .shard = shard,
      .shards = layout_.shards(),
      .range = layout_.range(shard),
      .chunk_floats = ChunkFloats(job_)};
  Written written;
  BackgroundWriter writer(run_dir_, disk);
  const absl::Status ordered = writer.Write(
      identity, writing.held, [&](auto file) { written = std::move(file); });
  writer.Finish();
  return ordered.ok() ? written : ordered;
}

// ---- The coordinator's log and manifests. ----

void FaultyCluster::Record(size_t l, const Actions& actions) {
  Lead& lead = *leads_[l];
  const std::vector<proto::LogRecord> records =
      RecordsOf(actions, absl::ToDoubleSeconds(Now() - absl::UnixEpoch()));
  const absl::Status appended = lead.files->log()->Append(records);
  Expect(appended.ok(), appended.ToString());
  const std::optional<Version> stored = StoredIn(actions);
  if (stored.has_value()) {
    const absl::Status cut = lead.files->log()->Cut(*stored);
    Expect(cut.ok(), cut.ToString());
    lead.synced = 0;  // The new file is not synced, not even its header.
  }
  for (const Action& action : actions) {
    if (const auto* manifest = std::get_if<StoreManifest>(&action)) {
      lead.orders.push_back(*manifest);
    } else if (const auto* remove = std::get_if<RemoveStored>(&action)) {
      lead.orders.push_back(*remove);
    } else {
      continue;
    }
    if (lead.orders.size() == 1) BeginOrder(l);
  }
}

void FaultyCluster::BeginOrder(size_t l) {
  Lead& lead = *leads_[l];
  if (lead.orders.empty()) return;
  const VirtualTime takes = chance_.DrawWriting(
      absl::Milliseconds(100),
      absl::Seconds(options_.job.limits().task_deadline_s()));
  At(IdOf(l), takes, [this, l] {
    FaultyFiles disk = chance_.DrawDisk();
    const absl::Status done = DoOrder(l, &disk);
    Lead& writer = *leads_[l];
    const auto order = std::move(writer.orders.front());
    writer.orders.pop_front();
    if (!writer.orders.empty()) BeginOrder(l);
    const auto* manifest = std::get_if<StoreManifest>(&order);
    if (manifest != nullptr && !writer.end().has_value()) {
      const std::string error(done.message());
      writer.branch->checker.ManifestWritten(manifest->version, error);
      writer.sessions.ManifestWritten(manifest->version, error, Now());
      CarryOut(l);
    }
  });
}

// Carries out the first order as far as `disk` allows.
absl::Status FaultyCluster::DoOrder(size_t l, FaultyFiles* disk) {
  Lead& lead = *leads_[l];
  if (const auto* order = std::get_if<StoreManifest>(&lead.orders.front())) {
    const CheckpointId id{order->generation, order->version};
    lineage_.Writing(id);
    const absl::Status written = WriteManifest(lead, *order, disk);
    // A later lead has ended this one's claim, whether or not it has noticed.
    Expect(!written.ok() || l + 1 == leads_.size(),
           "an older coordinator has written a manifest");
    lead.synced = std::filesystem::file_size(lead.files->log()->path());
    if (written.ok()) lineage_.Written(id);
    return written;
  }
  const auto& order = std::get<RemoveStored>(lead.orders.front());
  const CheckpointId id{order.generation, order.version};
  lineage_.Removing(id);
  SLUICE_RETURN_IF_ERROR(lead.files->Prove());
  Expect(l + 1 == leads_.size(), "an older coordinator removes a checkpoint");
  const absl::Status removed = RemoveCheckpoint(run_dir_, id, disk);
  if (removed.ok()) lineage_.Removed(id);
  return removed;
}

absl::Status FaultyCluster::WriteManifest(Lead& lead,
                                          const StoreManifest& order,
                                          FaultyFiles* disk) {
  ManifestWriter::Options options;
  options.run_dir = run_dir_;
  options.files = disk;
  options.prove = [&lead] { return lead.files->Prove(); };
  options.run.set_job(FormatJob(job_.job));
  options.run.set_job_fingerprint(job_.fingerprint);
  DescribeLayout(layout_, &options.run);
  for (const std::string& name : StoredArrays(job_)) {
    options.run.add_array(name);
  }
  options.run.set_chunk_floats(ChunkFloats(job_));
  absl::Status result;
  ManifestWriter writer(
      std::move(options), lead.files->log(),
      [&](Version, const absl::Status& status) { result = status; });
  writer.CarryOut({order});
  writer.Finish();
  return result;
}

}  // namespace sluice
