#ifndef SLUICE_PS_SERVER_CHECKPOINT_CHECKPOINT_H_
#define SLUICE_PS_SERVER_CHECKPOINT_CHECKPOINT_H_

#include <compare>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/files/file_operations.h"
#include "common/ids.h"
#include "common/parameter_layout.h"
#include "proto/checkpoint.pb.h"
#include "ps_server/checkpoint/shard_file.h"

namespace sluice {

// Identifies a checkpoint of a run. The newest one is the largest.
struct CheckpointId {
  Generation generation;
  Version version;
  constexpr auto operator<=>(const CheckpointId&) const = default;
};

// The folder of one checkpoint, "RUN/checkpoints/GENERATION-VERSION".
std::string CheckpointFolder(const std::string& run_dir, CheckpointId id);

// Makes that folder durably; OK if it exists. REQUIRES: the run folder exists.
// kUnavailable.
absl::Status MakeCheckpointFolder(const std::string& run_dir, CheckpointId id,
                                  FileOperations* files);

// Whether an error of Checkpoint means damage: its contents are wrong, or a
// file is certainly missing. Any other error only says that the storage did not
// answer, and the checkpoint may be whole.
bool IsDamage(const absl::Status& status);

// A complete checkpoint: its manifest is valid, and so are the headers of all
// its shards' files that are here. Missing may be those on disks of shards' own
// (--checkpoint-dir): whoever needs such a file finds out. Thread-compatible.
class Checkpoint {
 public:
  // Reads the manifest and the headers. Errors name the file, what was expected
  // and what was found. kNotFound: a file is missing, which the folder's
  // listing confirms. kUnavailable: a file cannot be read. Other errors are
  // those of DecodeManifest and ShardFile::Open. `files` must outlive the
  // checkpoint.
  static absl::StatusOr<Checkpoint> Open(
      const std::string& folder,
      FileOperations* files = FileOperations::Real());
  // The same of a manifest that has been read. `folder` need not exist if no
  // file is in it.
  static absl::StatusOr<Checkpoint> OfManifest(
      const std::string& folder, proto::CheckpointManifest manifest,
      FileOperations* files = FileOperations::Real());

  const std::string& folder() const { return folder_; }
  const proto::CheckpointManifest& manifest() const { return manifest_; }

  // The floats of `range` of the flat vector, from one of the manifest's
  // arrays. The checksum of every chunk that is read is verified. kDataLoss,
  // kUnavailable; kNotFound: a file is not here, names the host and path where
  // it was written.
  // REQUIRES: `range` lies in the flat vector.
  absl::StatusOr<std::vector<float>> Read(const std::string& array,
                                          ParameterRange range) const;

  // Reads and verifies everything that is here. kDataLoss, kUnavailable.
  absl::Status Verify() const;
  // Whether the file of shard `i` is here.
  bool IsHere(int i) const { return files_[i].ok(); }

 private:
  Checkpoint(std::string folder, proto::CheckpointManifest manifest);

  std::string folder_;
  proto::CheckpointManifest manifest_;
  std::vector<absl::StatusOr<ShardFile>> files_;  // By shard.
};

// All checkpoints in a run's folder, oldest first, complete or not.
// kUnavailable: the folder exists but cannot be listed.
absl::StatusOr<std::vector<CheckpointId>> ListCheckpoints(
    const std::string& run_dir, FileOperations* files = FileOperations::Real());

struct NewestCheckpoint {
  // Verified, as far as its files are here; nullopt if there is no whole one.
  std::optional<Checkpoint> checkpoint;
  // Newer checkpoints that are damaged, newest first, and the damage of each.
  std::vector<CheckpointId> damaged;
  std::vector<absl::Status> refused;
  // All checkpoints, oldest first.
  std::vector<CheckpointId> there;
};
// Only damaged checkpoints are skipped. kUnavailable: a checkpoint that may be
// the newest cannot be read; names the file. kFailedPrecondition: an earlier
// version of Sluice wrote it. `files` must outlive the checkpoint.
absl::StatusOr<NewestCheckpoint> OpenNewestCheckpoint(
    const std::string& run_dir, FileOperations* files = FileOperations::Real());

// Removes a checkpoint. The manifest goes first, so that an interrupted removal
// does not leave a checkpoint. OK if there is none. kUnavailable: names the
// file.
absl::Status RemoveCheckpoint(const std::string& run_dir, CheckpointId id,
                              FileOperations* files);

}  // namespace sluice

#endif  // SLUICE_PS_SERVER_CHECKPOINT_CHECKPOINT_H_
