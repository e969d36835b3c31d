// A checkpoint is whole once its manifest is there, so the manifest comes last:
//
//   log Sync      the log has all that led to the version: no loss of power may
//                 take from it what a run goes on from
//   CheckFiles    every shard's file is in this folder, and the one it
//                 reported; one on a disk of the shard's own is not looked for
//   prove         the run is still this lead's
//   write         in one step: whole or not there
#include "ps_server/coordinator/log/manifest_writer.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/process/named_thread.h"
#include "common/status_macros.h"
#include "common/telemetry/log_value.h"
#include "ps_server/checkpoint/checkpoint.h"
#include "ps_server/checkpoint/manifest.h"
#include "ps_server/coordinator/report/snapshot_conversion.h"
#include "third_party/spdlog.h"

namespace sluice {
namespace {

proto::CheckpointFile FileOf(const StoredPart& part) {
  proto::CheckpointFile file;
  file.set_name(part.file);
  file.set_begin(part.begin);
  file.set_end(part.end);
  file.set_bytes(part.bytes);
  file.set_header_checksum(part.header_checksum);
  file.set_host(part.host);
  file.set_path(part.path);
  return file;
}

// Whether all files are on disks of shards' own.
bool NoneIsHere(const proto::CheckpointManifest& manifest) {
  return std::none_of(manifest.file().begin(), manifest.file().end(),
                      [](const auto& file) { return file.path().empty(); });
}

// That every shard's file is here, and the one it said: a shard may write to
// another folder of that name. Files on disks of shards' own are not looked
// for.
absl::Status CheckFiles(const std::string& folder,
                        const proto::CheckpointManifest& manifest) {
  const std::vector<std::string> arrays(manifest.array().begin(),
                                        manifest.array().end());
  for (int i = 0; i < manifest.file_size(); ++i) {
    if (!manifest.file(i).path().empty()) continue;
    const absl::Status here =
        ShardFile::Open(folder, IdentityOf(manifest, ShardId(i)), arrays,
                        manifest.file(i))
            .status();
    if (here.ok()) continue;
    return absl::Status(
        here.code(),
        absl::StrCat(here.message(), "; shard ", i,
                     " says that it has written it: the run folder must be "
                     "one that all shards share, or each shard needs "
                     "--checkpoint-dir"));
  }
  return absl::OkStatus();
}

}  // namespace

ManifestWriter::ManifestWriter(Options options, CommitLogWriter* log, Done done)
    : options_(std::move(options)),
      log_(log),
      done_(std::move(done)),
      thread_(StartThread("manifest", [this] { Loop(); })) {}

ManifestWriter::~ManifestWriter() { Finish(); }

void ManifestWriter::Finish() {
  {
    absl::MutexLock lock(&mu_);
    finishing_ = true;
  }
  absl::MutexLock lock(&join_mu_);
  if (thread_.joinable()) thread_.join();
}

void ManifestWriter::CarryOut(const Actions& actions) {
  for (const Action& action : actions) {
    if (const auto* store = std::get_if<StoreManifest>(&action)) Put(*store);
    if (const auto* remove = std::get_if<RemoveStored>(&action)) Put(*remove);
  }
}

void ManifestWriter::Put(Order order) {
  absl::MutexLock lock(&mu_);
  if (!finishing_) orders_.push_back(std::move(order));
}

void ManifestWriter::Loop() {
  while (true) {
    Order order;
    {
      absl::MutexLock lock(&mu_);
      mu_.Await(absl::Condition(this, &ManifestWriter::Called));
      if (orders_.empty()) return;
      order = std::move(orders_.front());
      orders_.pop_front();
    }
    std::visit([this](const auto& what) { Do(what); }, order);
  }
}

void ManifestWriter::Do(const StoreManifest& order) const {
  done_(order.version, Write(order));
}

void ManifestWriter::Do(const RemoveStored& order) const {
  const absl::Status removed = Remove(order);
  if (removed.ok()) return;
  spdlog::warn("event=checkpoint_not_removed version={} error={}",
               order.version.value(), LogValue(removed.message()));
}

// Somebody else may have restored it.
absl::Status ManifestWriter::Remove(const RemoveStored& order) const {
  if (options_.prove != nullptr) SLUICE_RETURN_IF_ERROR(options_.prove());
  return RemoveCheckpoint(options_.run_dir, {order.generation, order.version},
                          options_.files);
}

absl::Status ManifestWriter::Write(const StoreManifest& order) const {
  SLUICE_RETURN_IF_ERROR(log_->Sync());
  proto::CheckpointManifest manifest = options_.run;
  manifest.set_generation(order.generation.value());
  manifest.set_version(order.version.value());
  for (const StoredPart& part : order.parts) {
    *manifest.add_file() = FileOf(part);
  }
  *manifest.mutable_state() = SnapshotToProto(*order.snapshot);
  const std::string folder =
      CheckpointFolder(options_.run_dir, {order.generation, order.version});
  // Who reads it must not find that it contradicts itself.
  SLUICE_RETURN_IF_ERROR(
      DecodeManifest(folder, EncodeManifest(manifest)).status());
  SLUICE_RETURN_IF_ERROR(CheckFiles(folder, manifest));
  if (options_.prove != nullptr) SLUICE_RETURN_IF_ERROR(options_.prove());
  if (NoneIsHere(manifest)) {  // Then no shard has made the folder.
    SLUICE_RETURN_IF_ERROR(MakeCheckpointFolder(
        options_.run_dir, {order.generation, order.version}, options_.files));
  }
  return WriteManifest(folder, manifest, options_.files);
}

}  // namespace sluice
