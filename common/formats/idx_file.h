#ifndef SLUICE_COMMON_FORMATS_IDX_FILE_H_
#define SLUICE_COMMON_FORMATS_IDX_FILE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace sluice {

// An array of unsigned bytes in MNIST's IDX format (LeCun): two zero bytes,
// the type (8: unsigned byte), the number of dimensions, each dimension as a
// big-endian 32-bit integer, then the values, last dimension fastest.
struct IdxFile {
  std::vector<int64_t> shape;   // Samples first.
  std::vector<uint8_t> values;  // Product of `shape` bytes.
};

// The shape in the header of `path` (plain or .gz, whatever its name); every
// dimension is at least 1. Errors of InputFile::Open; kUnavailable also if the
// system cannot read it. kInvalidArgument: it has another type or number of
// dimensions than expected. kDataLoss: its .gz stream is damaged. Messages name
// the file, what was expected and what was found.
absl::StatusOr<std::vector<int64_t>> ReadIdxShape(const std::string& path,
                                                  int dimensions);

// Reads the whole file. Errors as above, and kDataLoss if the values end early,
// if the file goes on after the last value, or if its .gz checksum is wrong.
// Memory grows with the bytes that are really there, whatever the header
// claims.
absl::StatusOr<IdxFile> ReadIdxFile(const std::string& path, int dimensions);

}  // namespace sluice

#endif  // SLUICE_COMMON_FORMATS_IDX_FILE_H_
