#ifndef SLUICE_COMMON_FORMATS_TEXT_FILE_H_
#define SLUICE_COMMON_FORMATS_TEXT_FILE_H_

#include <google/protobuf/repeated_field.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace sluice {

constexpr int64_t kByteValues = 256;

using TextPaths = google::protobuf::RepeatedPtrField<std::string>;

// Number of samples of `length` bytes, each with its next byte, in the files
// joined together. Errors of InputFile. kInvalidArgument also: a file is empty,
// or all together are shorter than one sample. Messages name the file, what was
// expected and what was found.
absl::StatusOr<int64_t> CountTextSamples(const TextPaths& paths,
                                         int64_t length);

// The bytes of all files, joined. Errors of a single file as above.
absl::StatusOr<std::vector<uint8_t>> ReadTextFiles(const TextPaths& paths);

}  // namespace sluice

#endif  // SLUICE_COMMON_FORMATS_TEXT_FILE_H_
