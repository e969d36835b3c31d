#ifndef SLUICE_TESTS_FUZZ_MEMORY_FILE_H_
#define SLUICE_TESTS_FUZZ_MEMORY_FILE_H_

#include <sys/mman.h>
#include <unistd.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace sluice::fuzz {

// A file in memory that has a path; removed by the destructor.
class MemoryFile {
 public:
  explicit MemoryFile(const std::string& bytes)
      : file_(memfd_create("fuzz", MFD_CLOEXEC)) {
    SLUICE_CHECK(file_ >= 0);
    SLUICE_CHECK(write(file_, bytes.data(), bytes.size()) ==
                 static_cast<ssize_t>(bytes.size()));
  }
  ~MemoryFile() { close(file_); }

  std::string path() const { return absl::StrCat("/proc/self/fd/", file_); }

 private:
  const int file_;
};

}  // namespace sluice::fuzz

#endif  // SLUICE_TESTS_FUZZ_MEMORY_FILE_H_
