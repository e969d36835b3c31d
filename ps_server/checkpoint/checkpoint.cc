// A checkpoint is a folder of one file per shard and a manifest:
//
//   RUN/checkpoints/2-40/shard-0.safetensors
//                        shard-1.safetensors
//                        manifest
//
// It exists exactly if its manifest does. The manifest is therefore written
// last, after all shards' files are on the disk, and removed first. A crash at
// any point leaves either a complete checkpoint or one without a manifest,
// which is skipped.
//
// "Newest" must not be decided by a storage that is merely slow:
// OpenNewestCheckpoint skips a checkpoint only if it is certainly damaged or
// incomplete (IsDamage). If it cannot be read, the caller gets kUnavailable and
// tries again, because falling back to an older checkpoint would throw away
// work.
#include "ps_server/checkpoint/checkpoint.h"

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/files/input_file.h"
#include "common/process/process_name.h"
#include "common/status_macros.h"
#include "ps_server/checkpoint/manifest.h"

namespace sluice {
namespace {

constexpr char kFolder[] = "checkpoints";

std::string FolderOfAll(const std::string& run_dir) {
  return absl::StrCat(run_dir, "/", kFolder);
}

std::string NameOf(CheckpointId id) {
  return absl::StrCat(id.generation.value(), "-", id.version.value());
}

std::optional<CheckpointId> ParseName(const std::string& name) {
  const std::vector<std::string> parts = absl::StrSplit(name, '-');
  int64_t generation = 0;
  int64_t version = 0;
  if (parts.size() != 2 || !absl::SimpleAtoi(parts[0], &generation) ||
      !absl::SimpleAtoi(parts[1], &version)) {
    return std::nullopt;
  }
  const CheckpointId id{Generation(generation), Version(version)};
  if (NameOf(id) != name) return std::nullopt;
  return id;
}

// Whether `of`, which is on a disk of a shard's own, cannot be here: on another
// host its path may be a folder that nobody may enter, or anything.
bool IsElsewhere(const proto::CheckpointFile& of, FileOperations* files) {
  if (of.path().empty()) return false;
  const absl::Status opened = InputFile::Open(of.path(), files).status();
  return absl::IsNotFound(opened) || (!opened.ok() && of.host() != HostName());
}

// An error of a file in `folder`. kNotFound is returned only if it is certain.
absl::Status InFolder(const std::string& folder, const std::string& name,
                      const absl::Status& status, FileOperations* files) {
  if (!absl::IsNotFound(status)) return status;
  SLUICE_RETURN_IF_ERROR(ProveMissing(folder, name, files));
  return status;
}

}  // namespace

bool IsDamage(const absl::Status& status) {
  return absl::IsDataLoss(status) || absl::IsInvalidArgument(status) ||
         absl::IsNotFound(status);
}

std::string CheckpointFolder(const std::string& run_dir, CheckpointId id) {
  return absl::StrCat(FolderOfAll(run_dir), "/", NameOf(id));
}

absl::Status MakeCheckpointFolder(const std::string& run_dir, CheckpointId id,
                                  FileOperations* files) {
  SLUICE_RETURN_IF_ERROR(files->MakeFolder(FolderOfAll(run_dir)));
  SLUICE_RETURN_IF_ERROR(files->SyncFolder(run_dir));
  SLUICE_RETURN_IF_ERROR(files->MakeFolder(CheckpointFolder(run_dir, id)));
  return files->SyncFolder(FolderOfAll(run_dir));
}

Checkpoint::Checkpoint(std::string folder, proto::CheckpointManifest manifest)
    : folder_(std::move(folder)), manifest_(std::move(manifest)) {}

absl::StatusOr<Checkpoint> Checkpoint::Open(const std::string& folder,
                                            FileOperations* files) {
  auto manifest = ReadManifest(folder, files);
  if (!manifest.ok()) {
    return InFolder(folder, "manifest", manifest.status(), files);
  }
  return OfManifest(folder, *std::move(manifest), files);
}

absl::StatusOr<Checkpoint> Checkpoint::OfManifest(
    const std::string& folder, proto::CheckpointManifest manifest,
    FileOperations* files) {
  Checkpoint checkpoint(folder, std::move(manifest));
  const proto::CheckpointManifest& found = checkpoint.manifest_;
  const CheckpointId id{Generation(found.generation()),
                        Version(found.version())};
  const std::vector<std::string> arrays(found.array().begin(),
                                        found.array().end());
  for (int i = 0; i < found.file_size(); ++i) {
    const ShardFileIdentity identity = IdentityOf(found, ShardId(i));
    auto file = ShardFile::Open(folder, identity, arrays, found.file(i), files);
    const proto::CheckpointFile& of = found.file(i);
    if (!file.ok() && IsElsewhere(of, files)) {
      file = absl::NotFoundError(absl::StrCat(
          of.host(), ":", of.path(), ": is not on this host (", HostName(),
          "), expected shard ", i, "'s part of checkpoint ", NameOf(id),
          ", which is on a disk of that shard's own"));
    } else if (!file.ok()) {
      return InFolder(folder, identity.file_name(), file.status(), files);
    }
    checkpoint.files_.push_back(std::move(file));
  }
  return checkpoint;
}

absl::StatusOr<std::vector<float>> Checkpoint::Read(
    const std::string& array, ParameterRange range) const {
  std::vector<float> floats(static_cast<size_t>(range.size()));
  for (size_t i = 0; i < files_.size(); ++i) {
    const proto::CheckpointFile& of = manifest_.file(static_cast<int>(i));
    if (of.end() <= range.begin || of.begin() >= range.end) continue;
    SLUICE_RETURN_IF_ERROR(files_[i].status());
    SLUICE_RETURN_IF_ERROR(
        files_[i]->Read(array, range, absl::MakeSpan(floats)));
  }
  return floats;
}

absl::Status Checkpoint::Verify() const {
  for (const absl::StatusOr<ShardFile>& file : files_) {
    if (file.ok()) SLUICE_RETURN_IF_ERROR(file->Verify());
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<CheckpointId>> ListCheckpoints(
    const std::string& run_dir, FileOperations* files) {
  std::vector<CheckpointId> ids;
  const auto names = files->List(FolderOfAll(run_dir));
  if (absl::IsNotFound(names.status())) {
    SLUICE_RETURN_IF_ERROR(ProveMissing(run_dir, kFolder, files));
    return ids;
  }
  SLUICE_RETURN_IF_ERROR(names.status());
  for (const std::string& name : *names) {
    if (const auto id = ParseName(name)) ids.push_back(*id);
  }
  std::sort(ids.begin(), ids.end());
  return ids;
}

absl::StatusOr<NewestCheckpoint> OpenNewestCheckpoint(
    const std::string& run_dir, FileOperations* files) {
  NewestCheckpoint newest;
  SLUICE_ASSIGN_OR_RETURN(newest.there, ListCheckpoints(run_dir, files));
  std::vector<CheckpointId> ids = newest.there;
  for (; !ids.empty(); ids.pop_back()) {
    auto opened =
        Checkpoint::Open(CheckpointFolder(run_dir, ids.back()), files);
    const absl::Status status =
        opened.ok() ? opened->Verify() : opened.status();
    if (status.ok()) {
      newest.checkpoint.emplace(*std::move(opened));
      break;
    }
    if (!IsDamage(status)) return status;
    newest.damaged.push_back(ids.back());
    newest.refused.push_back(status);
  }
  return newest;
}

absl::Status RemoveCheckpoint(const std::string& run_dir, CheckpointId id,
                              FileOperations* files) {
  const std::string folder = CheckpointFolder(run_dir, id);
  const auto names = files->List(folder);
  if (absl::IsNotFound(names.status())) return absl::OkStatus();
  SLUICE_RETURN_IF_ERROR(names.status());
  SLUICE_RETURN_IF_ERROR(files->Remove(absl::StrCat(folder, "/manifest")));
  SLUICE_RETURN_IF_ERROR(files->SyncFolder(folder));
  for (const std::string& name : *names) {
    SLUICE_RETURN_IF_ERROR(files->Remove(absl::StrCat(folder, "/", name)));
  }
  return files->Remove(folder);
}

}  // namespace sluice
