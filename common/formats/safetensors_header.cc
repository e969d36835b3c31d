// The header comes from a file and is not trusted: its length is bounded by the
// file's size before it is read, JSON errors become statuses, and the tensors
// must cover the data exactly. After that the offsets can be used without
// further checks.
#include "common/formats/safetensors_header.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace sluice {
namespace {

static_assert(std::endian::native == std::endian::little,
              "the length is copied as it lies in memory");

constexpr int64_t kLengthBytes = 8;
// The limit of the format's own library.
constexpr int64_t kMostHeaderBytes = 100'000'000;
constexpr char kMetadata[] = "__metadata__";

absl::Status Broken(const std::string& path, absl::string_view what) {
  return absl::DataLossError(absl::StrCat(path, ": ", what));
}

// The library would take 256.7 for 256.
bool AreCounts(const nlohmann::json& values) {
  return values.is_array() &&
         std::all_of(values.begin(), values.end(), [](const auto& value) {
           return value.is_number_unsigned();
         });
}

absl::StatusOr<SafetensorsHeader::Tensor> ParseTensor(
    const std::string& path, const std::string& name,
    const nlohmann::json& value) {
  try {
    const auto dtype = value.at("dtype").get<std::string>();
    if (dtype != "F32") {
      return absl::InvalidArgumentError(absl::StrCat(path, ": tensor ", name,
                                                     " has dtype \"", dtype,
                                                     "\", expected \"F32\""));
    }
    for (const char* field : {"shape", "data_offsets"}) {
      if (AreCounts(value.at(field))) continue;
      return Broken(path, absl::StrCat("tensor ", name, ": ", field,
                                       " is no list of whole numbers"));
    }
    SafetensorsHeader::Tensor tensor;
    tensor.shape = value.at("shape").get<std::vector<int64_t>>();
    const auto offsets =
        value.at("data_offsets").get<std::pair<int64_t, int64_t>>();
    tensor.begin = offsets.first;
    tensor.end = offsets.second;
    return tensor;
  } catch (const nlohmann::json::exception& error) {
    return Broken(path, absl::StrCat("tensor ", name, ": ", error.what()));
  }
}

// The published format requires that the tensors cover the data exactly.
absl::Status CheckCoverage(const std::string& path,
                           const SafetensorsHeader& header,
                           int64_t data_bytes) {
  std::vector<std::pair<int64_t, int64_t>> pieces;
  for (const auto& [name, tensor] : header.tensors) {
    pieces.emplace_back(tensor.begin, tensor.end);
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

}  // namespace

std::string EncodeSafetensorsHeader(
    const std::vector<std::pair<std::string, std::vector<int64_t>>>& tensors,
    const std::map<std::string, std::string>& metadata) {
  // Ordered, so that equal contents give equal files.
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header[kMetadata] = metadata;
  int64_t begin = 0;
  for (const auto& [name, shape] : tensors) {
    int64_t bytes = sizeof(float);
    for (const int64_t dimension : shape) bytes *= dimension;
    header[name] = {{"dtype", "F32"},
                    {"shape", shape},
                    {"data_offsets", {begin, begin + bytes}}};
    begin += bytes;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  char length[kLengthBytes];
  const uint64_t n = text.size();
  std::memcpy(length, &n, sizeof(length));
  return std::string(length, sizeof(length)) + text;
}

absl::StatusOr<std::string> ReadSafetensorsHeader(const InputFile& file) {
  uint64_t bytes = 0;
  if (file.size() < kLengthBytes) {
    return Broken(file.path(), absl::StrCat("has ", file.size(),
                                            " bytes, expected at least 8"));
  }
  SLUICE_RETURN_IF_ERROR(file.ReadAt(0, kLengthBytes, &bytes));
  const int64_t most = std::min(kMostHeaderBytes, file.size() - kLengthBytes);
  if (bytes > static_cast<uint64_t>(most)) {
    return Broken(file.path(), absl::StrCat("names a header of ", bytes,
                                            " bytes, expected at most ", most));
  }
  std::string text(bytes, ' ');
  SLUICE_RETURN_IF_ERROR(
      file.ReadAt(kLengthBytes, static_cast<int64_t>(bytes), text.data()));
  return text;
}

absl::StatusOr<SafetensorsHeader> ParseSafetensorsHeader(
    const std::string& path, absl::string_view text, int64_t data_bytes) {
  const nlohmann::json json =
      nlohmann::json::parse(text.begin(), text.end(), nullptr,
                            /*allow_exceptions=*/false);
  if (!json.is_object()) return Broken(path, "the header is not JSON");
  SafetensorsHeader header;
  for (const auto& [name, value] : json.items()) {
    if (name != kMetadata) {
      SLUICE_ASSIGN_OR_RETURN(header.tensors[name],
                              ParseTensor(path, name, value));
      continue;
    }
    for (const auto& [key, text_value] : value.items()) {
      if (text_value.is_string()) header.metadata[key] = text_value;
    }
  }
  SLUICE_RETURN_IF_ERROR(CheckCoverage(path, header, data_bytes));
  return header;
}

int64_t SafetensorsDataBegin(absl::string_view text) {
  return kLengthBytes + static_cast<int64_t>(text.size());
}

}  // namespace sluice
