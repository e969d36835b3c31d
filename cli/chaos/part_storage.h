#ifndef SLUICE_CLI_CHAOS_PART_STORAGE_H_
#define SLUICE_CLI_CHAOS_PART_STORAGE_H_

#include <map>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cli/chaos/schedule.h"

namespace sluice {

// Faults of the run folder, for each server of a run on its own. A library
// between the server and the C library (tests/process/faulty_disk.cc) makes the
// server's reads and writes there fail or wait, until the fault is healed.
//
// Not thread-safe: call from one thread.
class PartStorage {
 public:
  // Copies `library` into `folder`, and writes beside it what is to fail.
  // kNotFound: there is no such library. The message says how to build it.
  // kInvalidArgument: a path cannot be named to the library.
  static absl::StatusOr<std::unique_ptr<PartStorage>> Create(
      const std::string& library, const std::string& folder,
      const std::string& run_dir);

  // The library to start servers with (LD_PRELOAD).
  const std::string& library() const { return library_; }

  // Server `number` has this fault from now on, and no other. REQUIRES: `fault`
  // is not kNone.
  absl::Status Break(int number, StorageFault fault);
  absl::Status Heal(int number);

 private:
  PartStorage(std::string library, std::string run_dir);

  absl::Status Write() const;

  // Constant after construction.
  const std::string library_;
  const std::string run_dir_;

  std::map<int, StorageFault> faults_;  // By the server's number.
};

}  // namespace sluice

#endif  // SLUICE_CLI_CHAOS_PART_STORAGE_H_
