// The header is untrusted: a file of 16 bytes may claim 2^31 images. So values
// are read piece by piece and the vector grows with them. A file that ends
// early fails after the bytes it has, before the claimed size has been
// allocated.
#include "common/formats/idx_file.h"

#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/files/input_file.h"
#include "common/status_macros.h"

namespace sluice {
namespace {

constexpr int kUnsignedByte = 8;

// More than any data set that fits into memory, and far below the point where
// the product of dimensions could overflow.
constexpr int64_t kMostBytes = int64_t{1} << 40;

// Bytes read at a time.
constexpr int64_t kPiece = 1 << 20;

struct CloseGz {
  void operator()(gzFile file) const { gzclose(file); }
};
using GzFile = std::unique_ptr<gzFile_s, CloseGz>;

absl::StatusOr<GzFile> Open(const std::string& path) {
  // Says what is wrong; gzopen would wait for the writer of a FIFO.
  SLUICE_RETURN_IF_ERROR(InputFile::Open(path).status());
  GzFile file(gzopen(path.c_str(), "rb"));
  if (file != nullptr) return file;
  return absl::UnavailableError(
      absl::StrCat(path, ": cannot be read: open: ", std::strerror(errno)));
}

// Reads up to `size` bytes; fewer at the end of the file. kDataLoss if the .gz
// stream is damaged or cut, kUnavailable if the system cannot read it.
absl::StatusOr<int64_t> Read(gzFile file, const std::string& path, int64_t size,
                             uint8_t* to) {
  const int count = gzread(file, to, static_cast<unsigned>(size));
  int code = Z_OK;
  const std::string error = gzerror(file, &code);
  if (count >= 0 && (code == Z_OK || code == Z_STREAM_END)) return count;
  if (code == Z_BUF_ERROR) {
    return absl::DataLossError(
        absl::StrCat(path, ": the .gz stream ends early"));
  }
  const std::string message = absl::StrCat(path, ": cannot be read: ", error);
  return code == Z_ERRNO ? absl::UnavailableError(message)
                         : absl::DataLossError(message);
}

absl::StatusOr<std::vector<int64_t>> ReadShape(gzFile file,
                                               const std::string& path,
                                               int dimensions) {
  const int64_t size = 4 + 4 * dimensions;
  std::vector<uint8_t> bytes(size);
  SLUICE_ASSIGN_OR_RETURN(const int64_t got,
                          Read(file, path, size, bytes.data()));
  if (got >= 4 && (bytes[0] != 0 || bytes[1] != 0 ||
                   bytes[2] != kUnsignedByte || bytes[3] != dimensions)) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "%s: begins with %02x%02x%02x%02x, expected %08x (IDX, unsigned "
        "bytes, %d dimensions)",
        path, bytes[0], bytes[1], bytes[2], bytes[3],
        kUnsignedByte << 8 | dimensions, dimensions));
  }
  if (got < size) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": ends within its header: expected ", size,
                     " bytes, got ", got));
  }
  std::vector<int64_t> shape;
  int64_t product = 1;
  for (int d = 0; d < dimensions; ++d) {
    const uint8_t* at = bytes.data() + 4 + 4 * d;
    const int64_t length =
        int64_t{at[0]} << 24 | at[1] << 16 | at[2] << 8 | at[3];
    shape.push_back(length);
    // Once it is 0 or "too many" it stays so.
    const bool too_many = length > 0 && product > kMostBytes / length;
    product = too_many ? kMostBytes + 1 : product * length;
  }
  if (product < 1 || product > kMostBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": header claims ", absl::StrJoin(shape, " x "),
                     " values, expected 1 to ", kMostBytes, " in all"));
  }
  return shape;
}

}  // namespace

absl::StatusOr<std::vector<int64_t>> ReadIdxShape(const std::string& path,
                                                  int dimensions) {
  SLUICE_ASSIGN_OR_RETURN(const GzFile file, Open(path));
  return ReadShape(file.get(), path, dimensions);
}

absl::StatusOr<IdxFile> ReadIdxFile(const std::string& path, int dimensions) {
  SLUICE_ASSIGN_OR_RETURN(const GzFile file, Open(path));
  IdxFile idx;
  SLUICE_ASSIGN_OR_RETURN(idx.shape, ReadShape(file.get(), path, dimensions));
  int64_t expected = 1;
  for (const int64_t length : idx.shape) expected *= length;
  std::vector<uint8_t> piece(kPiece);
  while (true) {
    // Asks for one byte more than expected, to detect a file that goes on.
    const int64_t have = static_cast<int64_t>(idx.values.size());
    const int64_t want = std::min(kPiece, expected - have + 1);
    SLUICE_ASSIGN_OR_RETURN(const int64_t got,
                            Read(file.get(), path, want, piece.data()));
    if (have + got > expected) {
      return absl::DataLossError(absl::StrCat(
          path, ": goes on behind the ", expected, " values of ",
          absl::StrJoin(idx.shape, " x "), " that its header claims"));
    }
    idx.values.insert(idx.values.end(), piece.begin(), piece.begin() + got);
    if (got < want && have + got < expected) {
      return absl::DataLossError(
          absl::StrCat(path, ": ends early: expected ", expected, " values (",
                       absl::StrJoin(idx.shape, " x "), "), got ", have + got));
    }
    if (have + got == expected && got < want) break;
  }
  idx.values.shrink_to_fit();
  return idx;
}

}  // namespace sluice
