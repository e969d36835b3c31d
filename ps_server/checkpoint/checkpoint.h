#ifndef SLUICE_PS_SERVER_CHECKPOINT_CHECKPOINT_H_
#define SLUICE_PS_SERVER_CHECKPOINT_CHECKPOINT_H_

#include <compare>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/file_operations.h"
#include "common/ids.h"
#include "common/parameter_layout.h"
#include "proto/checkpoint.pb.h"
#include "ps_server/checkpoint/shard_file.h"

namespace sluice {

// Which checkpoint of a run; newest means largest.
struct CheckpointId {
  Generation generation;
  Version version;
  constexpr auto operator<=>(const CheckpointId&) const = default;
};

// The folder of one checkpoint, "RUN/checkpoints/GENERATION-VERSION".
std::string CheckpointFolder(const std::string& run_dir, CheckpointId id);

// Makes that folder, so that it survives a power failure; OK where it is
// there. REQUIRES: the run folder is there. kUnavailable.
absl::Status MakeCheckpointFolder(const std::string& run_dir, CheckpointId id,
                                  FileOperations* files);

// Whether an error of Checkpoint is damage: what was read, and is wrong, or a
// file that is certainly missing. Any other says only that the storage did not
// answer: the checkpoint may be whole.
bool IsDamage(const absl::Status& status);

// A checkpoint that exists: its manifest is whole, and so are the headers of
// all its shards' files. Thread-compatible.
class Checkpoint {
 public:
  // Reads manifest and headers. Errors name the file, what was expected and
  // what was found: kNotFound for a file that is missing, which the folder's
  // list must bear out; kUnavailable for what cannot be read; else as
  // DecodeManifest and ShardFile::Open. `files` outlives the checkpoint.
  static absl::StatusOr<Checkpoint> Open(
      const std::string& folder,
      FileOperations* files = FileOperations::Real());

  const std::string& folder() const { return folder_; }
  const proto::CheckpointManifest& manifest() const { return manifest_; }

  // The floats of `range` of the flat vector, from one of the manifest's
  // arrays. Every chunk that is touched is compared with its checksum.
  // kDataLoss, kUnavailable. REQUIRES: `range` lies in the flat vector.
  absl::StatusOr<std::vector<float>> Read(const std::string& array,
                                          ParameterRange range) const;

  // Reads everything. kDataLoss, kUnavailable.
  absl::Status Verify() const;

 private:
  Checkpoint(std::string folder, proto::CheckpointManifest manifest);

  std::string folder_;
  proto::CheckpointManifest manifest_;
  std::vector<ShardFile> files_;
};

// What there is in a run's folder of checkpoints, oldest first, whole or not.
// kUnavailable: it cannot be listed, though it is there.
absl::StatusOr<std::vector<CheckpointId>> ListCheckpoints(
    const std::string& run_dir, FileOperations* files = FileOperations::Real());

struct NewestCheckpoint {
  // Verified; nullopt when there is no whole one.
  std::optional<Checkpoint> checkpoint;
  // Newer ones, the newest first, and how each is damaged.
  std::vector<CheckpointId> damaged;
  std::vector<absl::Status> refused;
  // All that there are, oldest first.
  std::vector<CheckpointId> there;
};
// kUnavailable: one that may be the newest cannot be read, names the file. Only
// what is damaged is passed over. `files` outlives the checkpoint.
absl::StatusOr<NewestCheckpoint> OpenNewestCheckpoint(
    const std::string& run_dir, FileOperations* files = FileOperations::Real());

// Removes one, the manifest first, so that what is left when this ends early
// is no checkpoint. OK where there is none. kUnavailable: names the file.
absl::Status RemoveCheckpoint(const std::string& run_dir, CheckpointId id,
                              FileOperations* files);

}  // namespace sluice

#endif  // SLUICE_PS_SERVER_CHECKPOINT_CHECKPOINT_H_
