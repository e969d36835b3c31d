// The tensors of a file may lie in any order, while the flat vector has the
// layout's order. So opening a file maps each tensor to a Piece (range in the
// flat vector, offset in the file), and Read copies the overlap of the asked
// range with each piece. A shard that holds floats [64, 128) of a model thus
// reads 256 bytes.
#include "common/formats/safetensors.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "common/files/atomic_file.h"
#include "common/formats/safetensors_header.h"
#include "common/sha256.h"
#include "common/status_macros.h"

namespace sluice {
namespace {

static_assert(std::endian::native == std::endian::little,
              "floats are copied to and from the file as they lie in memory");

constexpr int64_t kFloat = sizeof(float);
// Bytes read at a time for the digest.
constexpr int64_t kPieceBytes = 1 << 20;

absl::Status CheckMatches(const std::string& path, const TensorSpec& tensor,
                          const SafetensorsHeader& header) {
  const auto it = header.tensors.find(tensor.name);
  if (it == header.tensors.end()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": tensor ", tensor.name, " is missing, expected (",
                     absl::StrJoin(tensor.shape, ", "), ")"));
  }
  const SafetensorsHeader::Tensor& found = it->second;
  const int64_t bytes = tensor.size * kFloat;
  if (found.shape == tensor.shape && found.end - found.begin == bytes) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      path, ": tensor ", tensor.name, " has shape (",
      absl::StrJoin(found.shape, ", "), ") in ", found.end - found.begin,
      " bytes, expected (", absl::StrJoin(tensor.shape, ", "), ") in ", bytes));
}

}  // namespace

absl::Status WriteSafetensors(const std::string& path,
                              const ParameterLayout& layout,
                              absl::Span<const float> weights) {
  return WriteSafetensors(path, layout, [weights] { return weights; });
}

absl::Status WriteSafetensors(
    const std::string& path, const ParameterLayout& layout,
    const std::function<absl::StatusOr<absl::Span<const float>>()>& next) {
  std::vector<std::pair<std::string, std::vector<int64_t>>> tensors;
  for (const TensorSpec& tensor : layout.tensors()) {
    tensors.emplace_back(tensor.name, tensor.shape);
  }
  const std::string header = EncodeSafetensorsHeader(tensors, {});
  bool begun = false;
  int64_t left = layout.size();
  FileOperations files;
  return WriteFileAtomically(
      path,
      [&]() -> absl::StatusOr<std::optional<absl::string_view>> {
        if (!std::exchange(begun, true)) return absl::string_view(header);
        if (left == 0) return std::nullopt;
        SLUICE_ASSIGN_OR_RETURN(const absl::Span<const float> part, next());
        left -= static_cast<int64_t>(part.size());
        SLUICE_CHECK(left >= 0);
        return absl::string_view(reinterpret_cast<const char*>(part.data()),
                                 part.size() * sizeof(float));
      },
      &files);
}

SafetensorsFile::SafetensorsFile(InputFile file) : file_(std::move(file)) {}

absl::StatusOr<SafetensorsFile> SafetensorsFile::Open(
    const std::string& path, const ParameterLayout& layout) {
  SLUICE_ASSIGN_OR_RETURN(InputFile opened, InputFile::Open(path));
  SafetensorsFile file(std::move(opened));
  SLUICE_RETURN_IF_ERROR(file.Place(layout));
  return file;
}

absl::Status SafetensorsFile::Place(const ParameterLayout& layout) {
  SLUICE_ASSIGN_OR_RETURN(const std::string text, ReadSafetensorsHeader(file_));
  const int64_t data = SafetensorsDataBegin(text);
  SLUICE_ASSIGN_OR_RETURN(
      SafetensorsHeader header,
      ParseSafetensorsHeader(file_.path(), text, file_.size() - data));
  for (const TensorSpec& tensor : layout.tensors()) {
    SLUICE_RETURN_IF_ERROR(CheckMatches(file_.path(), tensor, header));
    pieces_.push_back({{tensor.offset, tensor.offset + tensor.size},
                       data + header.tensors.at(tensor.name).begin});
    header.tensors.erase(tensor.name);
  }
  if (header.tensors.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      file_.path(), ": has a tensor ", header.tensors.begin()->first,
      ", expected only the ", layout.tensors().size(), " of the model"));
}

absl::StatusOr<std::vector<float>> SafetensorsFile::Read(
    ParameterRange range) const {
  std::vector<float> floats(static_cast<size_t>(range.size()));
  for (const Piece& piece : pieces_) {
    const int64_t begin = std::max(range.begin, piece.range.begin);
    const int64_t end = std::min(range.end, piece.range.end);
    if (begin >= end) continue;
    SLUICE_RETURN_IF_ERROR(file_.ReadAt(
        piece.file_offset + (begin - piece.range.begin) * kFloat,
        (end - begin) * kFloat, floats.data() + (begin - range.begin)));
  }
  return floats;
}

absl::StatusOr<std::string> SafetensorsFile::Sha256() const {
  sluice::Sha256 sha;
  std::vector<uint8_t> piece(kPieceBytes);
  for (int64_t at = 0; at < file_.size(); at += kPieceBytes) {
    const int64_t bytes = std::min(kPieceBytes, file_.size() - at);
    SLUICE_RETURN_IF_ERROR(file_.ReadAt(at, bytes, piece.data()));
    sha.Update(absl::MakeConstSpan(piece.data(), static_cast<size_t>(bytes)));
  }
  return sha.Hex();
}

absl::StatusOr<std::vector<float>> ReadSafetensors(
    const std::string& path, const ParameterLayout& layout) {
  SLUICE_ASSIGN_OR_RETURN(const SafetensorsFile file,
                          SafetensorsFile::Open(path, layout));
  return file.Read({0, layout.size()});
}

}  // namespace sluice
