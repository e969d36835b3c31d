// Checkpoints of a FaultyCluster: shards write their parts, a coordinator its
// log and manifests, with the production code, on a disk that fails.
#include <algorithm>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "ps_server/checkpoint/background_writer.h"
#include "ps_server/checkpoint/manifest.h"
#include "ps_server/coordinator/event_conversion.h"
#include "ps_server/coordinator/generations.h"
#include "ps_server/coordinator/manifest_writer.h"
#include "ps_server/shard_options_from_job.h"
#include "sim/testing/faulty_cluster.h"

namespace sluice {

// ---- A shard's part. ----

// The shard has just executed a Store.
void FaultyCluster::BeginWriting(size_t index) {
  Process& process = processes_[index];
  auto held = process.shard->TakeHeld();
  if (!held.has_value()) return;
  const Generation generation = process.shard->generation();
  if (process.writing.has_value()) {
    // As BackgroundWriter says.
    return AnswerStored(index, generation, held->version,
                        absl::ResourceExhaustedError("another is written"));
  }
  process.writing = {generation, *std::move(held)};
  VirtualTime takes = DrawTime(absl::Milliseconds(1), absl::Milliseconds(800));
  if (Strikes(faults_.disk_hangs)) {
    ++counts_.hung_writes;
    takes += absl::ToInt64Nanoseconds(options_.task_deadline);
  }
  At(index, takes, [this, index] {
    Process& writer = processes_[index];
    const bool refused = Strikes(faults_.disk_refuses);
    counts_.refused_writes += refused;
    FaultyFiles disk(
        refused ? FaultyFiles::Fault::kRefused : FaultyFiles::Fault::kNone,
        static_cast<int>(Draw(8)));
    const Shard::HeldVersion& held = writer.writing->held;
    CheckFloats(
        *writer.shard, writer.writing->generation, held.version.value(),
        held.arrays[0].chunks,
        absl::StrCat(Name(index), " stores version ", held.version.value()));
    const auto file = WriteHeld(writer, &disk);
    const Process::Writing done = *std::exchange(writer.writing, std::nullopt);
    AnswerStored(index, done.generation, done.held.version, file);
  });
}

absl::StatusOr<proto::CheckpointFile> FaultyCluster::WriteHeld(
    const Process& process, FaultyFiles* disk) const {
  const Process::Writing& writing = *process.writing;
  const ShardFileIdentity identity = {
      .job_fingerprint = job_.fingerprint,
      .layout_fingerprint = LayoutFingerprint(layout_),
      .generation = writing.generation,
      .version = writing.held.version,
      .shard = ShardId(process.peer.id),
      .shards = layout_.shards(),
      .range = layout_.range(ShardId(process.peer.id)),
      .chunk_floats = ChunkFloats(job_)};
  absl::StatusOr<proto::CheckpointFile> written;
  auto writer = std::make_unique<BackgroundWriter>(run_dir_, disk);
  const absl::Status ordered = writer->Write(
      identity, writing.held, [&](auto file) { written = std::move(file); });
  // Waits for it.
  writer.reset();
  return ordered.ok() ? written : ordered;
}

void FaultyCluster::AnswerStored(
    size_t index, Generation generation, Version version,
    const absl::StatusOr<proto::CheckpointFile>& file) {
  proto::ToCoordinator answer;
  proto::Stored* stored = answer.mutable_stored();
  stored->set_generation(generation.value());
  stored->set_version(version.value());
  if (file.ok()) {
    *stored->mutable_file() = *file;
  } else {
    stored->set_error(std::string(file.status().message()));
  }
  Answer(index, std::move(answer));
}

// ---- The coordinator's log and manifests. ----

void FaultyCluster::Record(size_t l, const Actions& actions) {
  Lead& lead = *leads_[l];
  const std::vector<proto::LogRecord> records =
      RecordsOf(actions, absl::ToDoubleSeconds(Now() - absl::UnixEpoch()));
  std::vector<int64_t> ends;
  const absl::Status appended = lead.files->log()->Append(records, &ends);
  Expect(appended.ok(), appended.ToString());
  for (size_t i = 0; i < records.size(); ++i) {
    if (records[i].has_commit()) lead.last_commit = {records[i], ends[i]};
  }
  for (const Action& action : actions) {
    if (const auto* decision = std::get_if<SendDecision>(&action)) {
      const auto* store = std::get_if<Store>(&decision->decision.what);
      if (store != nullptr) lead.commits[store->version] = lead.last_commit;
      continue;
    }
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
  VirtualTime takes = DrawTime(absl::Milliseconds(1), absl::Milliseconds(100));
  if (Strikes(faults_.disk_hangs)) {
    ++counts_.hung_writes;
    takes += absl::ToInt64Nanoseconds(options_.task_deadline);
  }
  At(IdOf(l), takes, [this, l] {
    const bool refused = Strikes(faults_.disk_refuses);
    counts_.refused_writes += refused;
    FaultyFiles disk(
        refused ? FaultyFiles::Fault::kRefused : FaultyFiles::Fault::kNone,
        static_cast<int>(Draw(8)));
    const absl::Status done = DoOrder(l, &disk);
    Lead& writer = *leads_[l];
    const auto order = std::move(writer.orders.front());
    writer.orders.pop_front();
    if (!writer.orders.empty()) BeginOrder(l);
    const auto* manifest = std::get_if<StoreManifest>(&order);
    if (manifest != nullptr && !writer.finish().has_value()) {
      const std::string error(done.message());
      writer.branch->checker.ManifestWritten(manifest->version, error);
      writer.sessions.ManifestWritten(manifest->version, error, Now());
      CarryOut(l);
    }
  });
}

// What the first order asks for; as far as `disk` lets it.
absl::Status FaultyCluster::DoOrder(size_t l, FaultyFiles* disk) {
  Lead& lead = *leads_[l];
  if (const auto* order = std::get_if<StoreManifest>(&lead.orders.front())) {
    const CheckpointId id{order->generation, order->version};
    lineage_.Writing(id);
    const absl::Status written = WriteManifest(lead, *order, disk);
    lead.synced = std::filesystem::file_size(
        CommitLogPath(run_dir_, lead.options.generation));
    if (written.ok()) lineage_.Written(id);
    return written;
  }
  const auto& order = std::get<RemoveStored>(lead.orders.front());
  const CheckpointId id{order.generation, order.version};
  lineage_.Removing(id);
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
  const auto& [commit, end] = lead.commits[order.version];
  writer.CarryOut({SendDecision{{1, Store{order.version}}}, order}, {commit},
                  {end});
  writer.Finish();
  return result;
}

}  // namespace sluice
