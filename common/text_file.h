#ifndef SLUICE_COMMON_TEXT_FILE_H_
#define SLUICE_COMMON_TEXT_FILE_H_

#include <google/protobuf/repeated_field.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace sluice {

constexpr int64_t kByteValues = 256;

using TextPaths = google::protobuf::RepeatedPtrField<std::string>;

// Samples of `length` bytes, and for each the byte behind it, in the files one
// behind the other. kNotFound when there is no such file; kInvalidArgument when
// it is no file or empty, or when all together are shorter than one sample.
// Each names the file, what was expected and what came.
absl::StatusOr<int64_t> CountTextSamples(const TextPaths& paths,
                                         int64_t length);

// The bytes of the files, one behind the other. Errors as of single files
// above, and kDataLoss where one cannot be read.
absl::StatusOr<std::vector<uint8_t>> ReadTextFiles(const TextPaths& paths);

}  // namespace sluice

#endif  // SLUICE_COMMON_TEXT_FILE_H_
