// A manifest is a 28-byte prefix and a CheckpointManifest:
//
//   bytes  0-7   "SLUICECP"
//   bytes  8-11  the format, 2
//   bytes 12-19  the length of the contents
//   bytes 20-27  XXH3-64 of the contents
//   bytes 28-    the contents (proto/checkpoint.proto)
//
// All numbers are little-endian. The length tells a truncated file from a
// damaged one. A correct checksum only shows that the bytes are those that were
// written, so CheckSense also refuses contents that contradict themselves.
// After that, readers may rely on sizes and ranges.
#include "ps_server/checkpoint/manifest.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/files/atomic_file.h"
#include "common/files/input_file.h"
#include "common/status_macros.h"
#include "ps_server/checkpoint/checksum.h"

namespace sluice {
namespace {

constexpr absl::string_view kMagic = "SLUICECP";
constexpr int kFormat = 2;
constexpr size_t kFormatAt = 8;
constexpr size_t kLengthAt = 12;
constexpr size_t kChecksumAt = 20;
constexpr size_t kPrefixBytes = 28;

void AppendLittleEndian(uint64_t value, int bytes, std::string* to) {
  for (int i = 0; i < bytes; ++i) {
    to->push_back(static_cast<char>(value >> (8 * i)));
  }
}

uint64_t LittleEndianAt(absl::string_view bytes, size_t at, int count) {
  uint64_t value = 0;
  for (int i = count - 1; i >= 0; --i) {
    value = value << 8 | static_cast<uint8_t>(bytes[at + i]);
  }
  return value;
}

absl::Status Lost(const std::string& path, absl::string_view what) {
  return absl::DataLossError(absl::StrCat(path, ": ", what));
}

// Checks what any correct writer guarantees, because readers will rely on it.
absl::Status CheckSense(const std::string& path,
                        const proto::CheckpointManifest& manifest) {
  if (manifest.chunk_floats() < 1) {
    return Lost(path, absl::StrCat("has chunks of ", manifest.chunk_floats(),
                                   " floats, expected 1 or more"));
  }
  if (manifest.file().empty()) return Lost(path, "names no files");
  if (manifest.array().empty() || manifest.array(0) != "weights") {
    return Lost(path,
                absl::StrCat("its first array is \"",
                             manifest.array().empty() ? "" : manifest.array(0),
                             "\", expected \"weights\""));
  }
  int64_t floats = 0;
  for (const proto::CheckpointTensor& tensor : manifest.tensor()) {
    int64_t size = 1;
    for (const int64_t dimension : tensor.shape()) {
      if (dimension < 0 || __builtin_mul_overflow(size, dimension, &size)) {
        return Lost(path, absl::StrCat("tensor ", tensor.name(),
                                       " has a dimension ", dimension));
      }
    }
    if (__builtin_add_overflow(floats, size, &floats)) {
      return Lost(path, absl::StrCat("tensor ", tensor.name(), " has ", size,
                                     " floats"));
    }
  }
  int64_t at = 0;
  for (const proto::CheckpointFile& file : manifest.file()) {
    if (file.begin() != at || file.end() < at) {
      return Lost(
          path, absl::StrCat(file.name(), " holds floats ", file.begin(),
                             " to ", file.end(), ", expected them from ", at));
    }
    at = file.end();
  }
  if (at == floats) return absl::OkStatus();
  return Lost(
      path, absl::StrCat("its files hold ", at, " floats, expected ", floats));
}

// The same bytes for the same contents, also of maps.
std::string Serialized(const proto::CheckpointManifest& manifest) {
  std::string payload;
  {
    google::protobuf::io::StringOutputStream stream(&payload);
    google::protobuf::io::CodedOutputStream coded(&stream);
    coded.SetSerializationDeterministic(true);
    manifest.SerializeToCodedStream(&coded);
  }
  return payload;
}

std::string PathIn(const std::string& folder) {
  return absl::StrCat(folder, "/manifest");
}

}  // namespace

std::string EncodeManifest(const proto::CheckpointManifest& manifest) {
  const std::string payload = Serialized(manifest);
  std::string bytes(kMagic);
  AppendLittleEndian(kFormat, 4, &bytes);
  AppendLittleEndian(payload.size(), 8, &bytes);
  AppendLittleEndian(TextChecksum(payload), 8, &bytes);
  return bytes + payload;
}

absl::StatusOr<proto::CheckpointManifest> DecodeManifest(
    const std::string& path, absl::string_view bytes) {
  if (bytes.substr(0, kMagic.size()) != kMagic.substr(0, bytes.size())) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": is no manifest of a checkpoint: begins with \"",
                     absl::CHexEscape(bytes.substr(0, kMagic.size())),
                     "\", expected \"", kMagic, "\""));
  }
  if (bytes.size() < kPrefixBytes) {
    return Lost(path, absl::StrCat("has ", bytes.size(),
                                   " bytes, expected at least ", kPrefixBytes));
  }
  const uint64_t format = LittleEndianAt(bytes, kFormatAt, 4);
  // Not damage, so no reason to pass it over for an older checkpoint. No single
  // bit makes this of kFormat.
  if (format == 1) {
    return absl::FailedPreconditionError(absl::StrCat(
        path, ": has format 1 of a checkpoint, this program reads ", kFormat,
        ": an earlier version of Sluice wrote it; only that one can go on from "
        "it"));
  }
  if (format != kFormat) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": has format ", format,
                     " of a checkpoint, this program reads ", kFormat));
  }
  const absl::string_view payload = bytes.substr(kPrefixBytes);
  const uint64_t length = LittleEndianAt(bytes, kLengthAt, 8);
  if (payload.size() != length) {
    return Lost(path, absl::StrCat("has ", payload.size(),
                                   " bytes of contents, expected ", length));
  }
  const uint64_t checksum = LittleEndianAt(bytes, kChecksumAt, 8);
  if (TextChecksum(payload) != checksum) {
    return Lost(path, absl::StrCat("the checksum of its contents is ",
                                   HexChecksum(TextChecksum(payload)),
                                   ", expected ", HexChecksum(checksum)));
  }
  proto::CheckpointManifest manifest;
  if (!manifest.ParseFromArray(payload.data(),
                               static_cast<int>(payload.size()))) {
    return Lost(path, "its contents are no CheckpointManifest");
  }
  SLUICE_RETURN_IF_ERROR(CheckSense(path, manifest));
  return manifest;
}

absl::Status WriteManifest(const std::string& folder,
                           const proto::CheckpointManifest& manifest,
                           FileOperations* files) {
  return WriteFileAtomically(PathIn(folder), {EncodeManifest(manifest)}, files);
}

absl::StatusOr<proto::CheckpointManifest> ReadManifest(
    const std::string& folder, FileOperations* files) {
  SLUICE_ASSIGN_OR_RETURN(const InputFile file,
                          InputFile::Open(PathIn(folder), files));
  std::string bytes(static_cast<size_t>(file.size()), '\0');
  SLUICE_RETURN_IF_ERROR(file.ReadAt(0, file.size(), bytes.data()));
  return DecodeManifest(PathIn(folder), bytes);
}

void DescribeLayout(const ParameterLayout& layout,
                    proto::CheckpointManifest* manifest) {
  manifest->set_layout_fingerprint(LayoutFingerprint(layout));
  for (const TensorSpec& spec : layout.tensors()) {
    proto::CheckpointTensor* tensor = manifest->add_tensor();
    tensor->set_name(spec.name);
    tensor->mutable_shape()->Assign(spec.shape.begin(), spec.shape.end());
  }
}

ParameterLayout LayoutOf(const proto::CheckpointManifest& manifest) {
  std::vector<TensorSpec> tensors;
  for (const proto::CheckpointTensor& tensor : manifest.tensor()) {
    TensorSpec& spec = tensors.emplace_back();
    spec.name = tensor.name();
    spec.shape.assign(tensor.shape().begin(), tensor.shape().end());
  }
  return ParameterLayout(std::move(tensors), manifest.file_size());
}

ShardFileIdentity IdentityOf(const proto::CheckpointManifest& manifest,
                             ShardId shard) {
  const proto::CheckpointFile& file =
      manifest.file(static_cast<int>(shard.value()));
  return {.job_fingerprint = manifest.job_fingerprint(),
          .layout_fingerprint = manifest.layout_fingerprint(),
          .generation = Generation(manifest.generation()),
          .version = Version(manifest.version()),
          .shard = shard,
          .shards = manifest.file_size(),
          .range = {file.begin(), file.end()},
          .chunk_floats = manifest.chunk_floats()};
}

}  // namespace sluice
