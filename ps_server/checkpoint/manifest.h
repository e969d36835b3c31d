#ifndef SLUICE_PS_SERVER_CHECKPOINT_MANIFEST_H_
#define SLUICE_PS_SERVER_CHECKPOINT_MANIFEST_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/files/file_operations.h"
#include "common/ids.h"
#include "common/parameter_layout.h"
#include "proto/checkpoint.pb.h"
#include "ps_server/checkpoint/shard_file.h"

namespace sluice {

// The manifest's bytes (format: proto/checkpoint.proto).
std::string EncodeManifest(const proto::CheckpointManifest& manifest);

// Decodes such bytes; `path` is for messages. Errors say what was expected and
// what was found. kInvalidArgument: not a manifest, or of a newer format.
// kFailedPrecondition: of an earlier format. kDataLoss: it is truncated or
// damaged, or contradicts itself.
absl::StatusOr<proto::CheckpointManifest> DecodeManifest(
    const std::string& path, absl::string_view bytes);

// Writes the manifest into the checkpoint's folder, which completes the
// checkpoint.
// REQUIRES: every shard's file is there. kUnavailable: names the file.
absl::Status WriteManifest(const std::string& folder,
                           const proto::CheckpointManifest& manifest,
                           FileOperations* files);

// Errors are those of InputFile (kNotFound, kUnavailable) and of
// DecodeManifest.
absl::StatusOr<proto::CheckpointManifest> ReadManifest(
    const std::string& folder, FileOperations* files = FileOperations::Real());

// Writes the layout's tensors and fingerprint into `manifest`.
void DescribeLayout(const ParameterLayout& layout,
                    proto::CheckpointManifest* manifest);
// The layout that a manifest describes, cut into ranges as its files are. It
// has names, shapes and offsets only; initial values and weight decay are
// defined by the job.
ParameterLayout LayoutOf(const proto::CheckpointManifest& manifest);

// The expected identity of the file of `shard`. REQUIRES: there is such a file.
ShardFileIdentity IdentityOf(const proto::CheckpointManifest& manifest,
                             ShardId shard);

}  // namespace sluice

#endif  // SLUICE_PS_SERVER_CHECKPOINT_MANIFEST_H_
