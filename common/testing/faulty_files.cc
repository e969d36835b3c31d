// Operations act on real files at once, so a loss of power is simulated
// backwards. Each change to a folder leaves an Undo, which SyncFolder discards.
// When power is lost, unsynced files are cut to half and the remaining Undos
// run, newest first. For example, Create(a.tmp), Write, Rename(a.tmp, a) and no
// SyncFolder: the rename is undone, and then the creation.
#include "common/testing/faulty_files.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

std::string Normal(absl::string_view folder) {
  return std::string(absl::StripSuffix(folder, "/"));
}

std::optional<std::string> Contents(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in || !fs::is_regular_file(path)) return std::nullopt;
  return std::string(std::istreambuf_iterator<char>(in), {});
}

void PutBack(const std::string& path,
             const std::optional<std::string>& contents) {
  if (contents.has_value()) {
    std::ofstream(path, std::ios::binary) << *contents;
  } else {
    fs::remove_all(path);
  }
}

}  // namespace

FaultyFiles::FaultyFiles(Fault fault, int operation)
    : fault_(fault), operation_(operation) {}

bool FaultyFiles::Strikes() {
  if (dead_) return true;
  if (fault_ == Fault::kNone || operations_++ != operation_) {
    if (fault_ == Fault::kNone) ++operations_;
    return false;
  }
  dead_ = fault_ != Fault::kRefused;
  if (fault_ == Fault::kPowerLost || fault_ == Fault::kPowerLostAfterNames) {
    LosePower();
  }
  return true;
}

void FaultyFiles::LosePower() {
  for (const std::string& path : unsynced_) {
    std::error_code error;
    const auto size = fs::file_size(path, error);
    if (!error) fs::resize_file(path, size / 2, error);
  }
  if (fault_ == Fault::kPowerLostAfterNames) return;
  for (; !undo_.empty(); undo_.pop_back()) undo_.back().action();
}

absl::Status FaultyFiles::Refusal(const std::string& path) const {
  return absl::UnavailableError(absl::StrCat(path, ": refused by the test"));
}

void FaultyFiles::Remember(const std::string& path,
                           std::function<void()> action) {
  undo_.push_back({Normal(FolderOf(path)), std::move(action)});
}

absl::StatusOr<int> FaultyFiles::Create(const std::string& path) {
  if (Strikes()) return Refusal(path);
  Remember(path, [path] { fs::remove(path); });
  unsynced_.insert(path);
  return FileOperations::Create(path);
}

absl::Status FaultyFiles::Write(int file, const std::string& path,
                                absl::string_view data) {
  const bool was_dead = dead_;
  if (!Strikes()) return FileOperations::Write(file, path, data);
  if (!was_dead && (fault_ == Fault::kKilled || fault_ == Fault::kRefused)) {
    FileOperations::Write(file, path, data.substr(0, data.size() / 2))
        .IgnoreError();
  }
  return Refusal(path);
}

absl::Status FaultyFiles::Sync(int file, const std::string& path) {
  if (Strikes()) return Refusal(path);
  unsynced_.erase(path);
  return FileOperations::Sync(file, path);
}

absl::Status FaultyFiles::Close(int file, const std::string& path) {
  const bool strikes = Strikes();
  const absl::Status closed = FileOperations::Close(file, path);
  return strikes ? Refusal(path) : closed;
}

absl::Status FaultyFiles::Rename(const std::string& from,
                                 const std::string& to) {
  if (Strikes()) return Refusal(to);
  Remember(to, [from, to, old = Contents(to)] {
    std::error_code error;
    fs::rename(to, from, error);
    PutBack(to, old);
  });
  if (unsynced_.erase(from) > 0) unsynced_.insert(to);
  return FileOperations::Rename(from, to);
}

absl::Status FaultyFiles::MakeFolder(const std::string& path) {
  if (Strikes()) return Refusal(path);
  if (!fs::exists(path)) {
    Remember(path, [path] { fs::remove_all(path); });
  }
  return FileOperations::MakeFolder(path);
}

absl::Status FaultyFiles::SyncFolder(const std::string& path) {
  if (Strikes()) return Refusal(path);
  std::erase_if(undo_,
                [&](const Undo& undo) { return undo.folder == Normal(path); });
  return FileOperations::SyncFolder(path);
}

absl::Status FaultyFiles::Remove(const std::string& path) {
  if (Strikes()) return Refusal(path);
  if (const auto old = Contents(path)) {
    Remember(path, [path, old] { PutBack(path, old); });
  } else if (fs::is_directory(path)) {
    Remember(path, [path] { fs::create_directory(path); });
  }
  return FileOperations::Remove(path);
}

}  // namespace sluice
