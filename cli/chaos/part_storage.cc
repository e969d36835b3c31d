#include "cli/chaos/part_storage.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/files/atomic_file.h"
#include "common/status_macros.h"

namespace sluice {
namespace {

// A line for the library: what happens, to which accesses, below which path.
std::string LineOf(StorageFault fault, const std::string& run_dir) {
  switch (fault) {
    case StorageFault::kUnreadable:
      return absl::StrCat("fail EIO read ", run_dir, "/checkpoints");
    case StorageFault::kFull:
      return absl::StrCat("fail ENOSPC write ", run_dir);
    case StorageFault::kStalled:
      return absl::StrCat("stall all ", run_dir);
    case StorageFault::kNone:
      break;
  }
  SLUICE_CHECK(!"a fault of the storage has a line");
}

}  // namespace

PartStorage::PartStorage(std::string library, std::string run_dir)
    : library_(std::move(library)), run_dir_(std::move(run_dir)) {}

absl::StatusOr<std::unique_ptr<PartStorage>> PartStorage::Create(
    const std::string& library, const std::string& folder,
    const std::string& run_dir) {
  // The library reads what is to fail from a file beside its own path.
  std::error_code error;
  const std::string path =
      std::filesystem::absolute(folder + "/faulty_disk.so", error).string();
  const std::string run = std::filesystem::absolute(run_dir, error).string();
  // What separates two libraries in LD_PRELOAD, or the words of a fault.
  if (absl::StrCat(path, run).find_first_of(" :\n") != std::string::npos) {
    return absl::InvalidArgumentError(
        absl::StrCat("faults of the storage: expected a run folder without "
                     "space, colon and newline in its path, is ",
                     run));
  }
  std::filesystem::copy_file(library, path, error);
  if (error) {
    return absl::NotFoundError(
        absl::StrCat("faults of the storage: ", library, ": ", error.message(),
                     "; bazel build //tests/process:faulty_disk.so makes it"));
  }
  std::unique_ptr<PartStorage> storage(new PartStorage(path, run));
  SLUICE_RETURN_IF_ERROR(storage->Write());
  return storage;
}

absl::Status PartStorage::Break(int number, StorageFault fault) {
  faults_[number] = fault;
  return Write();
}

absl::Status PartStorage::Heal(int number) {
  faults_.erase(number);
  return Write();
}

absl::Status PartStorage::Write() const {
  std::string lines;
  for (const auto& [number, fault] : faults_) {
    absl::StrAppend(&lines, "in --shard=", number, " ", LineOf(fault, run_dir_),
                    "\n");
  }
  return WriteFileAtomically(library_ + ".faults", {lines});
}

}  // namespace sluice
