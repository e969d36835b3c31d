#ifndef SLUICE_CLI_CHAOS_PART_STORAGE_H_
#define SLUICE_CLI_CHAOS_PART_STORAGE_H_

#include <map>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cli/chaos/schedule.h"

namespace sluice {

// The run folder as each server of a run sees it: a library between the server
// and the C library (tests/process/faulty_disk.cc) lets what a server does
// there fail or wait, until it is healed. Nobody else is concerned.
//
// Not thread-safe: call from one thread.
class PartStorage {
 public:
  // Puts a copy of `library` into `folder`, and beside it what is to fail.
  // kNotFound: there is no such library; says how it is built.
  static absl::StatusOr<std::unique_ptr<PartStorage>> Create(
      const std::string& library, const std::string& folder,
      const std::string& run_dir);

  // What servers are to be started with (LD_PRELOAD).
  const std::string& library() const { return library_; }

  // From now on this fault holds for the server `number`, in the place of one
  // before. REQUIRES: `fault` is not kNone.
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
