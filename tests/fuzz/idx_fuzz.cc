// Reads any bytes as an IDX file, plain and compressed.
//
// Must hold: plain and compressed files are read alike. An accepted file has as
// many values as its shape says and, written again, gives the same bytes. An
// error names the file, and what was expected or what cannot be read.
//
// Input: one byte (bits 0 and 1: dimensions less 1; bit 2: the rest is the file
// as it is, which may be a damaged .gz), then the file.

#include <zlib.h>

#include <string>

#include "absl/strings/match.h"
#include "common/formats/idx_file.h"
#include "common/status_macros.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/fuzz/memory_file.h"

namespace sluice {
namespace {

std::string Packed(const std::string& bytes) {
  z_stream stream = {};
  // 15 bits of window; adding 16 asks for a .gz header.
  SLUICE_CHECK(deflateInit2(&stream, Z_BEST_SPEED, Z_DEFLATED, 15 + 16, 8,
                            Z_DEFAULT_STRATEGY) == Z_OK);
  std::string out(deflateBound(&stream, bytes.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = bytes.size();
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = out.size();
  SLUICE_CHECK(deflate(&stream, Z_FINISH) == Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

std::string Encoded(const IdxFile& idx) {
  std::string bytes = {0, 0, 8, static_cast<char>(idx.shape.size())};
  for (const int64_t length : idx.shape) {
    for (const int shift : {24, 16, 8, 0}) {
      bytes.push_back(static_cast<char>(length >> shift));
    }
  }
  bytes.append(idx.values.begin(), idx.values.end());
  return bytes;
}

void CheckError(const absl::Status& status, const std::string& path) {
  SLUICE_CHECK(status.code() == absl::StatusCode::kInvalidArgument ||
               status.code() == absl::StatusCode::kDataLoss);
  SLUICE_CHECK(absl::StartsWith(status.message(), path + ": "));
  const absl::string_view what = status.message().substr(path.size());
  SLUICE_CHECK(absl::StrContains(what, "expected") ||
               absl::StrContains(what, "goes on behind") ||
               absl::StrContains(what, "cannot be read: ") ||
               absl::StrContains(what, "stream ends early"));
}

absl::StatusOr<IdxFile> Read(const std::string& bytes, int dimensions) {
  const fuzz::MemoryFile file(bytes);
  const auto shape = ReadIdxShape(file.path(), dimensions);
  auto idx = ReadIdxFile(file.path(), dimensions);
  if (!shape.ok()) CheckError(shape.status(), file.path());
  if (!idx.ok()) {
    CheckError(idx.status(), file.path());
    return idx;
  }
  SLUICE_CHECK(shape.ok());
  SLUICE_CHECK(*shape == idx->shape);
  SLUICE_CHECK(static_cast<int>(idx->shape.size()) == dimensions);
  int64_t product = 1;
  for (const int64_t length : idx->shape) product *= length;
  SLUICE_CHECK(product == static_cast<int64_t>(idx->values.size()));
  return idx;
}

}  // namespace
}  // namespace sluice

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  sluice::fuzz::FuzzInput input(data, size);
  const uint8_t how = input.Byte();
  const int dimensions = 1 + (how & 3);
  const std::string bytes = input.Rest();
  const auto plain = sluice::Read(bytes, dimensions);
  // Bytes that begin like a .gz are decompressed, so they are not the values.
  const bool is_gz = absl::StartsWith(bytes, "\x1f\x8b");
  if (plain.ok() && !is_gz) SLUICE_CHECK(sluice::Encoded(*plain) == bytes);
  if (is_gz || (how & 4)) return 0;
  const auto packed = sluice::Read(sluice::Packed(bytes), dimensions);
  SLUICE_CHECK(packed.ok() == plain.ok());
  SLUICE_CHECK(packed.status().code() == plain.status().code());
  if (plain.ok()) SLUICE_CHECK(packed->values == plain->values);
  return 0;
}
