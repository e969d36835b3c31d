#include "ps_server/checkpoint/checkpoint.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/status_macros.h"
#include "ps_server/checkpoint/manifest.h"

namespace sluice {
namespace {

std::string FolderOfAll(const std::string& run_dir) {
  return absl::StrCat(run_dir, "/checkpoints");
}

std::string NameOf(CheckpointId id) {
  return absl::StrCat(id.generation.value(), "-", id.version.value());
}

// Names of what lies in `folder`, in order; none where there is no folder.
std::vector<std::string> NamesIn(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (std::filesystem::directory_iterator it(folder, error), end;
       !error && it != end; it.increment(error)) {
    names.push_back(it->path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
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

}  // namespace

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

absl::StatusOr<Checkpoint> Checkpoint::Open(const std::string& folder) {
  SLUICE_ASSIGN_OR_RETURN(proto::CheckpointManifest manifest,
                          ReadManifest(folder));
  Checkpoint checkpoint(folder, std::move(manifest));
  const proto::CheckpointManifest& found = checkpoint.manifest_;
  const std::vector<std::string> arrays(found.array().begin(),
                                        found.array().end());
  for (int i = 0; i < found.file_size(); ++i) {
    SLUICE_ASSIGN_OR_RETURN(
        ShardFile file, ShardFile::Open(folder, IdentityOf(found, ShardId(i)),
                                        arrays, found.file(i)));
    checkpoint.files_.push_back(std::move(file));
  }
  return checkpoint;
}

absl::StatusOr<std::vector<float>> Checkpoint::Read(
    const std::string& array, ParameterRange range) const {
  std::vector<float> floats(static_cast<size_t>(range.size()));
  for (const ShardFile& file : files_) {
    SLUICE_RETURN_IF_ERROR(file.Read(array, range, absl::MakeSpan(floats)));
  }
  return floats;
}

absl::Status Checkpoint::Verify() const {
  for (const ShardFile& file : files_) {
    SLUICE_RETURN_IF_ERROR(file.Verify());
  }
  return absl::OkStatus();
}

std::vector<CheckpointId> ListCheckpoints(const std::string& run_dir) {
  std::vector<CheckpointId> ids;
  for (const std::string& name : NamesIn(FolderOfAll(run_dir))) {
    if (const auto id = ParseName(name)) ids.push_back(*id);
  }
  std::sort(ids.begin(), ids.end());
  return ids;
}

NewestCheckpoint OpenNewestCheckpoint(const std::string& run_dir) {
  NewestCheckpoint newest;
  std::vector<CheckpointId> ids = ListCheckpoints(run_dir);
  for (; !ids.empty(); ids.pop_back()) {
    auto opened = Checkpoint::Open(CheckpointFolder(run_dir, ids.back()));
    const absl::Status status =
        opened.ok() ? opened->Verify() : opened.status();
    if (status.ok()) {
      newest.checkpoint.emplace(*std::move(opened));
      break;
    }
    newest.refused.push_back(status);
  }
  return newest;
}

absl::Status RemoveCheckpoint(const std::string& run_dir, CheckpointId id,
                              FileOperations* files) {
  const std::string folder = CheckpointFolder(run_dir, id);
  std::error_code error;
  if (!std::filesystem::exists(folder, error)) return absl::OkStatus();
  SLUICE_RETURN_IF_ERROR(files->Remove(absl::StrCat(folder, "/manifest")));
  SLUICE_RETURN_IF_ERROR(files->SyncFolder(folder));
  for (const std::string& name : NamesIn(folder)) {
    SLUICE_RETURN_IF_ERROR(files->Remove(absl::StrCat(folder, "/", name)));
  }
  return files->Remove(folder);
}

}  // namespace sluice
