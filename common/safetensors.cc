#include "common/safetensors.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "common/atomic_file.h"
#include "common/sha256.h"
#include "common/status_macros.h"

namespace sluice {
namespace {

static_assert(std::endian::native == std::endian::little,
              "floats are copied to and from the file as they lie in memory");

constexpr int64_t kLengthBytes = 8;
constexpr int64_t kFloat = sizeof(float);
// As in the format's own library.
constexpr int64_t kMostHeaderBytes = 100'000'000;
// Read at once for the digest.
constexpr int64_t kPieceBytes = 1 << 20;

// Where one tensor's bytes lie in the data.
struct Entry {
  std::vector<int64_t> shape;
  int64_t begin = 0;
  int64_t end = 0;
};
using Entries = std::map<std::string, Entry>;

std::string Header(const ParameterLayout& layout) {
  // Ordered, so that equal weights give equal files.
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  for (const TensorSpec& tensor : layout.tensors()) {
    const int64_t begin = tensor.offset * kFloat;
    const int64_t bytes = tensor.size * kFloat;
    header[tensor.name] = {{"dtype", "F32"},
                           {"shape", tensor.shape},
                           {"data_offsets", {begin, begin + bytes}}};
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  return text;
}

absl::Status Broken(const std::string& path, absl::string_view what) {
  return absl::DataLossError(absl::StrCat(path, ": ", what));
}

absl::StatusOr<Entry> ParseEntry(const std::string& path,
                                 const std::string& name,
                                 const nlohmann::json& value) {
  try {
    if (value.at("dtype") != "F32") {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": tensor ", name, " has dtype ",
                       value.at("dtype").dump(), ", expected \"F32\""));
    }
    Entry entry;
    entry.shape = value.at("shape").get<std::vector<int64_t>>();
    const auto offsets =
        value.at("data_offsets").get<std::pair<int64_t, int64_t>>();
    entry.begin = offsets.first;
    entry.end = offsets.second;
    return entry;
  } catch (const nlohmann::json::exception& error) {
    return Broken(path, absl::StrCat("tensor ", name, ": ", error.what()));
  }
}

absl::StatusOr<Entries> ParseHeader(const std::string& path,
                                    absl::string_view text) {
  const nlohmann::json header =
      nlohmann::json::parse(text.begin(), text.end(), nullptr,
                            /*allow_exceptions=*/false);
  if (!header.is_object()) return Broken(path, "the header is not JSON");
  Entries entries;
  for (const auto& [name, value] : header.items()) {
    if (name == "__metadata__") continue;
    SLUICE_ASSIGN_OR_RETURN(entries[name], ParseEntry(path, name, value));
  }
  return entries;
}

// The published format wants the tensors to cover the data exactly.
absl::Status CheckCoverage(const std::string& path, const Entries& entries,
                           int64_t data_bytes) {
  std::vector<std::pair<int64_t, int64_t>> pieces;
  for (const auto& [name, entry] : entries) {
    pieces.emplace_back(entry.begin, entry.end);
  }
  std::sort(pieces.begin(), pieces.end());
  int64_t at = 0;
  for (const auto& [begin, end] : pieces) {
    if (begin != at || end < begin) {
      return Broken(path, absl::StrCat("a tensor lies at bytes ", begin, " to ",
                                       end, ", expected one from byte ", at));
    }
    at = end;
  }
  if (at == data_bytes) return absl::OkStatus();
  return Broken(path, absl::StrCat("has ", data_bytes,
                                   " bytes of data, the header names ", at));
}

absl::Status CheckMatches(const std::string& path, const TensorSpec& tensor,
                          const Entries& entries) {
  const auto it = entries.find(tensor.name);
  if (it == entries.end()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": tensor ", tensor.name, " is missing, expected (",
                     absl::StrJoin(tensor.shape, ", "), ")"));
  }
  const Entry& entry = it->second;
  const int64_t bytes = tensor.size * kFloat;
  if (entry.shape == tensor.shape && entry.end - entry.begin == bytes) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      path, ": tensor ", tensor.name, " has shape (",
      absl::StrJoin(entry.shape, ", "), ") in ", entry.end - entry.begin,
      " bytes, expected (", absl::StrJoin(tensor.shape, ", "), ") in ", bytes));
}

}  // namespace

absl::Status WriteSafetensors(const std::string& path,
                              const ParameterLayout& layout,
                              absl::Span<const float> weights) {
  SLUICE_CHECK(static_cast<int64_t>(weights.size()) == layout.size());
  const std::string header = Header(layout);
  char length[kLengthBytes];
  const uint64_t n = header.size();
  std::memcpy(length, &n, sizeof(length));
  const absl::string_view data(reinterpret_cast<const char*>(weights.data()),
                               weights.size() * sizeof(float));
  return WriteFileAtomically(
      path, {absl::string_view(length, sizeof(length)), header, data});
}

SafetensorsFile::SafetensorsFile(std::string path) : path_(std::move(path)) {}

SafetensorsFile::SafetensorsFile(SafetensorsFile&& other)
    : path_(std::move(other.path_)),
      fd_(std::exchange(other.fd_, -1)),
      size_(other.size_),
      pieces_(std::move(other.pieces_)) {}

SafetensorsFile::~SafetensorsFile() {
  if (fd_ >= 0) close(fd_);
}

absl::StatusOr<SafetensorsFile> SafetensorsFile::Open(
    const std::string& path, const ParameterLayout& layout) {
  SafetensorsFile file(path);
  file.fd_ = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  struct stat stat = {};
  if (file.fd_ < 0 || fstat(file.fd_, &stat) != 0) {
    return absl::NotFoundError(
        absl::StrCat(path, ": cannot be opened: ", std::strerror(errno)));
  }
  if (!S_ISREG(stat.st_mode)) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": is no file"));
  }
  file.size_ = stat.st_size;
  SLUICE_ASSIGN_OR_RETURN(const std::string header, file.ReadHeader());
  SLUICE_RETURN_IF_ERROR(file.Place(layout, header));
  return file;
}

absl::Status SafetensorsFile::ReadAt(int64_t offset, int64_t bytes,
                                     void* to) const {
  char* at = static_cast<char*>(to);
  while (bytes > 0) {
    const ssize_t got = pread(fd_, at, static_cast<size_t>(bytes), offset);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      return Broken(
          path_, absl::StrCat("cannot be read at byte ", offset, ": ",
                              got == 0 ? "it ends there, it was longer before"
                                       : std::strerror(errno)));
    }
    at += got;
    offset += got;
    bytes -= got;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> SafetensorsFile::ReadHeader() {
  uint64_t bytes = 0;
  if (size_ < kLengthBytes) {
    return Broken(path_,
                  absl::StrCat("has ", size_, " bytes, expected at least 8"));
  }
  SLUICE_RETURN_IF_ERROR(ReadAt(0, kLengthBytes, &bytes));
  const int64_t most = std::min(kMostHeaderBytes, size_ - kLengthBytes);
  if (bytes > static_cast<uint64_t>(most)) {
    return Broken(path_, absl::StrCat("names a header of ", bytes,
                                      " bytes, expected at most ", most));
  }
  std::string header(bytes, ' ');
  SLUICE_RETURN_IF_ERROR(
      ReadAt(kLengthBytes, static_cast<int64_t>(bytes), header.data()));
  return header;
}

absl::Status SafetensorsFile::Place(const ParameterLayout& layout,
                                    const std::string& header) {
  SLUICE_ASSIGN_OR_RETURN(Entries entries, ParseHeader(path_, header));
  const int64_t data = kLengthBytes + static_cast<int64_t>(header.size());
  SLUICE_RETURN_IF_ERROR(CheckCoverage(path_, entries, size_ - data));
  for (const TensorSpec& tensor : layout.tensors()) {
    SLUICE_RETURN_IF_ERROR(CheckMatches(path_, tensor, entries));
    pieces_.push_back({{tensor.offset, tensor.offset + tensor.size},
                       data + entries.at(tensor.name).begin});
    entries.erase(tensor.name);
  }
  if (entries.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      path_, ": has a tensor ", entries.begin()->first, ", expected only the ",
      layout.tensors().size(), " of the model"));
}

absl::StatusOr<std::vector<float>> SafetensorsFile::Read(
    ParameterRange range) const {
  std::vector<float> floats(static_cast<size_t>(range.size()));
  for (const Piece& piece : pieces_) {
    const int64_t begin = std::max(range.begin, piece.range.begin);
    const int64_t end = std::min(range.end, piece.range.end);
    if (begin >= end) continue;
    SLUICE_RETURN_IF_ERROR(
        ReadAt(piece.file_offset + (begin - piece.range.begin) * kFloat,
               (end - begin) * kFloat, floats.data() + (begin - range.begin)));
  }
  return floats;
}

absl::StatusOr<std::string> SafetensorsFile::Sha256() const {
  sluice::Sha256 sha;
  std::vector<uint8_t> piece(kPieceBytes);
  for (int64_t at = 0; at < size_; at += kPieceBytes) {
    const int64_t bytes = std::min(kPieceBytes, size_ - at);
    SLUICE_RETURN_IF_ERROR(ReadAt(at, bytes, piece.data()));
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
