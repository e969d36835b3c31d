#ifndef SLUICE_COMMON_TESTING_FAULTY_FILES_H_
#define SLUICE_COMMON_TESTING_FAULTY_FILES_H_

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "common/files/file_operations.h"

namespace sluice {

// The system's files, with one fault that strikes at one operation.
//
// Not thread-safe: call from the test.
class FaultyFiles : public FileOperations {
 public:
  enum class Fault {
    // No fault.
    kNone,
    // The operation fails after half of what it should write. Later ones
    // succeed.
    kRefused,
    // The process dies in the operation: half of it is written, and later
    // operations do nothing.
    kKilled,
    // The machine loses power before the operation. Half of the unsynced bytes
    // are left, and changes to a folder that was not synced are undone, ...
    kPowerLost,
    // ... or are done nevertheless, as file systems may.
    kPowerLostAfterNames,
  };
  // `operation` is counted from 0.
  explicit FaultyFiles(Fault fault = Fault::kNone, int operation = 0);

  int operations() const { return operations_; }  // So far.

  absl::StatusOr<int> Create(const std::string& path) override;
  absl::Status Write(int file, const std::string& path,
                     absl::string_view data) override;
  absl::Status Sync(int file, const std::string& path) override;
  absl::Status Close(int file, const std::string& path) override;
  absl::Status Rename(const std::string& from, const std::string& to) override;
  absl::Status MakeFolder(const std::string& path) override;
  absl::Status SyncFolder(const std::string& path) override;
  absl::Status Remove(const std::string& path) override;

 private:
  struct Undo {
    std::string folder;
    std::function<void()> action;
  };

  // Counts an operation. Returns whether it must fail, because the fault
  // strikes now or has already killed the process.
  bool Strikes();
  void LosePower();
  absl::Status Refusal(const std::string& path) const;
  void Remember(const std::string& path, std::function<void()> action);

  const Fault fault_;
  const int operation_;
  int operations_ = 0;
  bool dead_ = false;
  std::set<std::string> unsynced_;  // Files with unsynced contents.
  std::vector<Undo> undo_;  // Undoes changes to folders that were not synced.
};

}  // namespace sluice

#endif  // SLUICE_COMMON_TESTING_FAULTY_FILES_H_
