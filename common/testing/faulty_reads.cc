#include "common/testing/faulty_reads.h"

#include "absl/strings/str_cat.h"

namespace sluice {
namespace {

absl::Status Failure(const std::string& path) {
  return absl::UnavailableError(
      absl::StrCat(path, ": cannot be read: failed by the test"));
}

}  // namespace

bool FaultyReads::Strikes(bool opens) {
  const int operation = operations_++;
  const bool strikes = operation >= first_ && operation < end_ &&
                       (opens || fault_ == Fault::kFails);
  failed_ += strikes;
  return strikes;
}

absl::StatusOr<int> FaultyReads::OpenToRead(const std::string& path) {
  if (!Strikes(/*opens=*/true)) return FileOperations::OpenToRead(path);
  if (fault_ == Fault::kFails) return Failure(path);
  return absl::NotFoundError(absl::StrCat(path, ": cannot be opened: stale"));
}

absl::StatusOr<int64_t> FaultyReads::ReadAt(int file, const std::string& path,
                                            int64_t offset,
                                            absl::Span<char> to) {
  if (Strikes(/*opens=*/false)) return Failure(path);
  return FileOperations::ReadAt(file, path, offset, to);
}

absl::StatusOr<std::vector<std::string>> FaultyReads::List(
    const std::string& folder) {
  if (Strikes(/*opens=*/false)) return Failure(folder);
  return FileOperations::List(folder);
}

}  // namespace sluice
