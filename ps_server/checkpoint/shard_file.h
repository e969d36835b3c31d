#ifndef SLUICE_PS_SERVER_CHECKPOINT_SHARD_FILE_H_
#define SLUICE_PS_SERVER_CHECKPOINT_SHARD_FILE_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/files/file_operations.h"
#include "common/files/input_file.h"
#include "common/ids.h"
#include "common/parameter_layout.h"
#include "proto/checkpoint.pb.h"

namespace sluice {

// SHA-256 (hex) of the names and shapes of the layout's tensors. It is the same
// for any number of shards.
std::string LayoutFingerprint(const ParameterLayout& layout);

// The place of one shard's file in its checkpoint, as its header states it.
struct ShardFileIdentity {
  std::string job_fingerprint;
  std::string layout_fingerprint;
  Generation generation;
  Version version;
  ShardId shard;
  int shards = 1;
  ParameterRange range;
  int64_t chunk_floats = 1;  // At least 1.

  std::string file_name() const;  // "shard-0.safetensors"
};

// One array over the shard's range, in ChunkGrid's chunks. Views only.
struct CheckpointArray {
  std::string name;  // "weights", "mean"
  std::vector<absl::Span<const float>> chunks;
};

// Writes one shard's part of a checkpoint into the existing `folder`, as a
// .safetensors file, atomically. Blocks until it is on the disk. Reads `arrays`
// twice. kUnavailable: names the file and the operation.
// REQUIRES: the chunks are those of ChunkGrid(range.size(), chunk_floats).
absl::StatusOr<proto::CheckpointFile> WriteShardFile(
    const std::string& folder, const ShardFileIdentity& identity,
    absl::Span<const CheckpointArray> arrays, FileOperations* files);

// A shard's file, opened for reading. Thread-compatible.
class ShardFile {
 public:
  // Reads the header only, of the file in `folder`, or where `expected` says
  // that it is. Errors name the file, what was expected and what was
  // found. kNotFound: it is missing. kInvalidArgument: it is no such file, has
  // a newer format, or belongs to another checkpoint. kDataLoss: it is damaged
  // or truncated. kUnavailable: it cannot be read. `files` must outlive the
  // file.
  static absl::StatusOr<ShardFile> Open(
      const std::string& folder, const ShardFileIdentity& identity,
      const std::vector<std::string>& arrays,
      const proto::CheckpointFile& expected,
      FileOperations* files = FileOperations::Real());

  ParameterRange range() const { return identity_.range; }

  // Copies the part of `range` (of the flat vector) that this file has of
  // `array` to its place in `to`, which covers `range`. Every chunk concerned
  // is read as a whole. kDataLoss: its checksum is wrong. kUnavailable: it
  // cannot be read.
  // REQUIRES: `array` was named at Open; to.size() == range.size().
  absl::Status Read(const std::string& array, ParameterRange range,
                    absl::Span<float> to) const;

  // Reads and verifies everything. Errors are those of Read.
  absl::Status Verify() const;

 private:
  struct Array {
    int64_t file_offset = 0;  // In bytes.
    std::vector<uint64_t> checksums;
  };

  ShardFile(InputFile file, ShardFileIdentity identity);
  absl::Status ReadHeader(const std::vector<std::string>& arrays,
                          const proto::CheckpointFile& expected);
  // Reads a chunk and verifies its checksum.
  absl::StatusOr<std::vector<float>> ReadChunk(const std::string& name,
                                               const Array& array,
                                               int chunk) const;

  InputFile file_;
  ShardFileIdentity identity_;
  std::map<std::string, Array> arrays_;
};

}  // namespace sluice

#endif  // SLUICE_PS_SERVER_CHECKPOINT_SHARD_FILE_H_
