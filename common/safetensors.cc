#include "common/safetensors.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "common/atomic_file.h"
#include "common/status_macros.h"

namespace sluice {
namespace {

static_assert(std::endian::native == std::endian::little,
              "floats are copied to and from the file as they lie in memory");

constexpr size_t kLengthBytes = 8;

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
    const int64_t begin = tensor.offset * static_cast<int64_t>(sizeof(float));
    const int64_t bytes = tensor.size * static_cast<int64_t>(sizeof(float));
    header[tensor.name] = {{"dtype", "F32"},
                           {"shape", tensor.shape},
                           {"data_offsets", {begin, begin + bytes}}};
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  return text;
}

absl::StatusOr<std::string> ReadWhole(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return absl::NotFoundError(absl::StrCat(path, ": cannot open"));
  std::string content((std::istreambuf_iterator<char>(in)),
                      std::istreambuf_iterator<char>());
  return content;
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
        absl::StrCat(path, ": tensor ", tensor.name, " is missing"));
  }
  const Entry& entry = it->second;
  const int64_t bytes = tensor.size * static_cast<int64_t>(sizeof(float));
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

absl::StatusOr<std::vector<float>> ReadSafetensors(
    const std::string& path, const ParameterLayout& layout) {
  SLUICE_ASSIGN_OR_RETURN(const std::string content, ReadWhole(path));
  uint64_t header_bytes = 0;
  if (content.size() < kLengthBytes) {
    return Broken(path, absl::StrCat("has ", content.size(),
                                     " bytes, expected at least 8"));
  }
  std::memcpy(&header_bytes, content.data(), kLengthBytes);
  if (header_bytes > content.size() - kLengthBytes) {
    return Broken(
        path, absl::StrCat("names a header of ", header_bytes, " bytes, has ",
                           content.size() - kLengthBytes));
  }
  const absl::string_view text(content.data() + kLengthBytes, header_bytes);
  SLUICE_ASSIGN_OR_RETURN(const Entries entries, ParseHeader(path, text));
  const absl::string_view data =
      absl::string_view(content).substr(kLengthBytes + header_bytes);
  SLUICE_RETURN_IF_ERROR(
      CheckCoverage(path, entries, static_cast<int64_t>(data.size())));
  if (entries.size() != layout.tensors().size()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": has ", entries.size(), " tensors, expected ",
                     layout.tensors().size()));
  }
  std::vector<float> weights(static_cast<size_t>(layout.size()));
  for (const TensorSpec& tensor : layout.tensors()) {
    SLUICE_RETURN_IF_ERROR(CheckMatches(path, tensor, entries));
    const Entry& entry = entries.at(tensor.name);
    if (tensor.size == 0) continue;
    std::memcpy(weights.data() + tensor.offset, data.data() + entry.begin,
                static_cast<size_t>(entry.end - entry.begin));
  }
  return weights;
}

}  // namespace sluice
