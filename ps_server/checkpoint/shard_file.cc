// A shard's file is an ordinary .safetensors file, so that other programs can
// read it. Its metadata say which checkpoint and shard it belongs to, and have
// a checksum for each chunk. The manifest has a checksum of the header, so the
// chain manifest -> header -> chunks leaves no byte unchecked.
//
// A shard that resumes with another number of shards reads ranges across files.
// For example, with floats [0, 16) in shard-0 and [16, 47) in shard-1, Read of
// [8, 24) copies 8 floats from each, and verifies the whole chunks that these
// lie in.
#include "ps_server/checkpoint/shard_file.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "common/files/atomic_file.h"
#include "common/formats/safetensors_header.h"
#include "common/sha256.h"
#include "common/status_macros.h"
#include "common/wire/payload.h"
#include "ps_server/checkpoint/checksum.h"
#include "ps_server/shard/chunk_grid.h"

namespace sluice {
namespace {

static_assert(std::endian::native == std::endian::little,
              "floats are copied to and from the file as they lie in memory");

using Metadata = std::map<std::string, std::string>;

constexpr char kFormatKey[] = "sluice_checkpoint";
constexpr char kFormat[] = "1";

std::string ChecksumsKey(absl::string_view array) {
  return absl::StrCat("checksums.", array);
}

ChunkGrid GridOf(const ShardFileIdentity& identity) {
  return ChunkGrid(identity.range.size(), identity.chunk_floats);
}

Metadata ToMetadata(const ShardFileIdentity& identity) {
  return {{kFormatKey, kFormat},
          {"job_fingerprint", identity.job_fingerprint},
          {"layout_fingerprint", identity.layout_fingerprint},
          {"generation", absl::StrCat(identity.generation.value())},
          {"version", absl::StrCat(identity.version.value())},
          {"shard", absl::StrCat(identity.shard.value())},
          {"shards", absl::StrCat(identity.shards)},
          {"begin", absl::StrCat(identity.range.begin)},
          {"end", absl::StrCat(identity.range.end)},
          {"chunk_floats", absl::StrCat(identity.chunk_floats)}};
}

// Checks that the file is the one that the manifest expects.
absl::Status CheckIdentity(const std::string& path, const Metadata& expected,
                           const Metadata& found) {
  const auto format = found.find(kFormatKey);
  if (format == found.end()) {
    return absl::InvalidArgumentError(absl::StrCat(
        path, ": is no part of a checkpoint: its metadata have no \"",
        kFormatKey, "\", expected \"", kFormat, "\""));
  }
  if (format->second != kFormat) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": has format ", format->second,
                     " of a checkpoint, this program reads ", kFormat));
  }
  for (const auto& [key, value] : expected) {
    const auto it = found.find(key);
    if (it != found.end() && it->second == value) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        path, ": belongs to another checkpoint: ", key, " is ",
        it == found.end() ? "missing" : absl::StrCat("\"", it->second, "\""),
        ", expected \"", value, "\""));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<uint64_t>> ParseChecksums(const std::string& path,
                                                     const std::string& array,
                                                     int count,
                                                     const Metadata& metadata) {
  std::vector<uint64_t> checksums;
  const auto it = metadata.find(ChecksumsKey(array));
  if (it != metadata.end()) {
    for (const absl::string_view text : absl::StrSplit(it->second, ' ')) {
      if (!absl::SimpleHexAtoi(text, &checksums.emplace_back())) {
        return absl::DataLossError(absl::StrCat(path, ": ", ChecksumsKey(array),
                                                ": \"", text, "\" is no sum"));
      }
    }
  }
  if (static_cast<int>(checksums.size()) == count) return checksums;
  return absl::DataLossError(absl::StrCat(path, ": has ", checksums.size(),
                                          " checksums of ", array,
                                          ", expected ", count));
}

}  // namespace

std::string LayoutFingerprint(const ParameterLayout& layout) {
  Sha256 sha;
  for (const TensorSpec& tensor : layout.tensors()) {
    sha.Update(
        absl::StrCat(tensor.name, " ", absl::StrJoin(tensor.shape, "x"), "\n"));
  }
  return sha.Hex();
}

std::string ShardFileIdentity::file_name() const {
  return absl::StrCat("shard-", shard.value(), ".safetensors");
}

absl::StatusOr<proto::CheckpointFile> WriteShardFile(
    const std::string& folder, const ShardFileIdentity& identity,
    absl::Span<const CheckpointArray> arrays, FileOperations* files) {
  Metadata metadata = ToMetadata(identity);
  std::vector<std::pair<std::string, std::vector<int64_t>>> tensors;
  // The first piece is the header, filled in below.
  std::vector<absl::string_view> pieces(1);
  for (const CheckpointArray& array : arrays) {
    SLUICE_CHECK(array.chunks.size() == GridOf(identity).count());
    std::vector<std::string> checksums;
    for (const absl::Span<const float> chunk : array.chunks) {
      checksums.push_back(HexChecksum(ChunkChecksum(chunk)));
      pieces.emplace_back(reinterpret_cast<const char*>(chunk.data()),
                          chunk.size() * sizeof(float));
    }
    metadata[ChecksumsKey(array.name)] = absl::StrJoin(checksums, " ");
    tensors.push_back({array.name, {identity.range.size()}});
  }
  const std::string header = EncodeSafetensorsHeader(tensors, metadata);
  pieces[0] = header;
  SLUICE_RETURN_IF_ERROR(WriteFileAtomically(
      absl::StrCat(folder, "/", identity.file_name()), pieces, files));
  proto::CheckpointFile file;
  file.set_name(identity.file_name());
  file.set_begin(identity.range.begin);
  file.set_end(identity.range.end);
  for (const absl::string_view piece : pieces) {
    file.set_bytes(file.bytes() + static_cast<int64_t>(piece.size()));
  }
  // Without the length before it, as ReadSafetensorsHeader returns the header.
  file.set_header_checksum(
      TextChecksum(absl::string_view(header).substr(SafetensorsDataBegin(""))));
  return file;
}

ShardFile::ShardFile(InputFile file, ShardFileIdentity identity)
    : file_(std::move(file)), identity_(std::move(identity)) {}

absl::StatusOr<ShardFile> ShardFile::Open(
    const std::string& folder, const ShardFileIdentity& identity,
    const std::vector<std::string>& arrays,
    const proto::CheckpointFile& expected, FileOperations* files) {
  SLUICE_ASSIGN_OR_RETURN(
      InputFile opened,
      InputFile::Open(expected.path().empty()
                          ? absl::StrCat(folder, "/", identity.file_name())
                          : expected.path(),
                      files));
  ShardFile file(std::move(opened), identity);
  SLUICE_RETURN_IF_ERROR(file.ReadHeader(arrays, expected));
  return file;
}

absl::Status ShardFile::ReadHeader(const std::vector<std::string>& arrays,
                                   const proto::CheckpointFile& expected) {
  const std::string& path = file_.path();
  SLUICE_ASSIGN_OR_RETURN(const std::string text, ReadSafetensorsHeader(file_));
  const int64_t data = SafetensorsDataBegin(text);
  const bool intact = TextChecksum(text) == expected.header_checksum();
  if (file_.size() != expected.bytes() && intact) {
    return absl::DataLossError(absl::StrCat(
        path, ": has ", file_.size(), " bytes, expected ", expected.bytes()));
  }
  SLUICE_ASSIGN_OR_RETURN(
      const SafetensorsHeader header,
      ParseSafetensorsHeader(path, text, file_.size() - data));
  SLUICE_RETURN_IF_ERROR(
      CheckIdentity(path, ToMetadata(identity_), header.metadata));
  if (!intact) {
    return absl::DataLossError(
        absl::StrCat(path, ": the checksum of its header is ",
                     HexChecksum(TextChecksum(text)), ", expected ",
                     HexChecksum(expected.header_checksum())));
  }
  for (const std::string& name : arrays) {
    const auto it = header.tensors.find(name);
    if (it == header.tensors.end() ||
        it->second.end - it->second.begin !=
            identity_.range.size() * static_cast<int64_t>(sizeof(float))) {
      return absl::DataLossError(absl::StrCat(path, ": has no array ", name,
                                              " of ", identity_.range.size(),
                                              " floats, expected one"));
    }
    Array& array = arrays_[name];
    array.file_offset = data + it->second.begin;
    SLUICE_ASSIGN_OR_RETURN(
        array.checksums,
        ParseChecksums(path, name, GridOf(identity_).count(), header.metadata));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<float>> ShardFile::ReadChunk(const std::string& name,
                                                        const Array& array,
                                                        int chunk) const {
  const ChunkGrid grid = GridOf(identity_);
  std::vector<float> floats(static_cast<size_t>(grid.size(chunk)));
  SLUICE_RETURN_IF_ERROR(file_.ReadAt(
      array.file_offset + grid.begin(chunk) * sizeof(float),
      static_cast<int64_t>(floats.size() * sizeof(float)), floats.data()));
  const uint64_t found = ChunkChecksum(floats);
  if (found == array.checksums[chunk]) return floats;
  return absl::DataLossError(absl::StrCat(
      file_.path(), ": chunk ", chunk, " of ", name, " has the checksum ",
      HexChecksum(found), ", expected ", HexChecksum(array.checksums[chunk])));
}

absl::Status ShardFile::Read(const std::string& array, ParameterRange range,
                             absl::Span<float> to) const {
  const ChunkGrid grid = GridOf(identity_);
  for (int chunk = 0; chunk < grid.count(); ++chunk) {
    const int64_t start = identity_.range.begin + grid.begin(chunk);
    const int64_t begin = std::max(range.begin, start);
    const int64_t end = std::min(range.end, start + grid.size(chunk));
    if (begin >= end) continue;
    SLUICE_ASSIGN_OR_RETURN(const std::vector<float> floats,
                            ReadChunk(array, arrays_.at(array), chunk));
    std::copy_n(floats.begin() + (begin - start), end - begin,
                to.begin() + (begin - range.begin));
  }
  return absl::OkStatus();
}

absl::Status ShardFile::Verify() const {
  for (const auto& [name, array] : arrays_) {
    for (int chunk = 0; chunk < GridOf(identity_).count(); ++chunk) {
      SLUICE_RETURN_IF_ERROR(ReadChunk(name, array, chunk).status());
    }
  }
  return absl::OkStatus();
}

}  // namespace sluice
