#ifndef SLUICE_COMMON_TESTING_FAULTY_READS_H_
#define SLUICE_COMMON_TESTING_FAULTY_READS_H_

#include <string>
#include <vector>

#include "common/files/file_operations.h"

namespace sluice {

// The system's files, with some reading operations that fail.
//
// Not thread-safe: call from the test.
class FaultyReads : public FileOperations {
 public:
  enum class Fault {
    kFails,  // The system cannot say: an error of the disk or the network.
    kStale,  // Opening says that there is no such file, from a stale cache.
  };
  // `count` operations in a row fail, beginning with number `operation`, from
  // 0.
  FaultyReads(Fault fault, int operation, int count)
      : fault_(fault), first_(operation), end_(operation + count) {}
  FaultyReads() : FaultyReads(Fault::kFails, 0, 0) {}

  int operations() const { return operations_; }  // So far.
  int failed() const { return failed_; }          // So far.

  absl::StatusOr<int> OpenToRead(const std::string& path) override;
  absl::StatusOr<int64_t> ReadAt(int file, const std::string& path,
                                 int64_t offset, absl::Span<char> to) override;
  absl::StatusOr<std::vector<std::string>> List(
      const std::string& folder) override;

 private:
  // Counts an operation. Returns whether it fails.
  bool Strikes(bool opens);

  const Fault fault_;
  const int first_;
  const int end_;
  int operations_ = 0;
  int failed_ = 0;
};

}  // namespace sluice

#endif  // SLUICE_COMMON_TESTING_FAULTY_READS_H_
