#ifndef SLUICE_PS_SERVER_CHECKPOINT_MANIFEST_H_
#define SLUICE_PS_SERVER_CHECKPOINT_MANIFEST_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/file_operations.h"
#include "common/ids.h"
#include "common/parameter_layout.h"
#include "proto/checkpoint.pb.h"
#include "ps_server/checkpoint/shard_file.h"

namespace sluice {

// The manifest's bytes (format: proto/checkpoint.proto).
std::string EncodeManifest(const proto::CheckpointManifest& manifest);

// Reads them back; `path` is for messages. Errors say what was expected and
// what was found: kInvalidArgument for what is no manifest or has a newer
// format; kDataLoss when it is cut or damaged, or contradicts itself.
absl::StatusOr<proto::CheckpointManifest> DecodeManifest(
    const std::string& path, absl::string_view bytes);

// Writes it into the checkpoint's folder, which makes the checkpoint exist.
// REQUIRES: every shard's file is there. kUnavailable: names the file.
absl::Status WriteManifest(const std::string& folder,
                           const proto::CheckpointManifest& manifest,
                           FileOperations* files);

// kNotFound and kUnavailable as InputFile, or as DecodeManifest.
absl::StatusOr<proto::CheckpointManifest> ReadManifest(
    const std::string& folder, FileOperations* files = FileOperations::Real());

// The layout's tensors and fingerprint, into `manifest`.
void DescribeLayout(const ParameterLayout& layout,
                    proto::CheckpointManifest* manifest);
// The layout that a manifest describes, cut as its files are. Names, shapes and
// offsets only: how tensors start and decay is the job's.
ParameterLayout LayoutOf(const proto::CheckpointManifest& manifest);

// What the file of `shard` must say of itself. REQUIRES: there is that file.
ShardFileIdentity IdentityOf(const proto::CheckpointManifest& manifest,
                             ShardId shard);

}  // namespace sluice

#endif  // SLUICE_PS_SERVER_CHECKPOINT_MANIFEST_H_
