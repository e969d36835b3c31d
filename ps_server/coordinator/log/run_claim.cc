#include "ps_server/coordinator/log/run_claim.h"

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/status_macros.h"
#include "ps_server/coordinator/log/generations.h"

// A claim is there under one of two names: its own, and, between the two
// renames of a proof, the other. Who ends it so looks for both, and again,
// since it may have been renamed between the two looks.
namespace sluice {
namespace {

constexpr char kName[] = "lead-";
constexpr char kProving[] = ".proving";
// Its owner would have to rename it at the same moment as often as this.
constexpr int kLooks = 3;

// "RUN/lead-3".
std::string ClaimPath(const std::string& run_dir, Generation generation) {
  return absl::StrCat(run_dir, "/", kName, generation.value());
}

absl::Status EndClaim(const std::string& path, FileOperations* files) {
  const std::string over = path + ".over";
  for (int i = 0; i < kLooks; ++i) {
    for (const char* suffix : {"", kProving}) {
      const absl::Status taken = files->Rename(path + suffix, over);
      if (taken.ok()) return files->Remove(over);
      if (!absl::IsNotFound(taken)) return taken;
    }
  }
  // Whoever took that generation died before, or MakeClaim will tell it.
  return absl::OkStatus();
}

// The generations of which there is a claim.
absl::StatusOr<std::set<Generation>> ListClaims(const std::string& run_dir,
                                                FileOperations* files) {
  std::set<Generation> claimed;
  SLUICE_ASSIGN_OR_RETURN(const std::vector<std::string> listed,
                          files->List(run_dir));
  for (absl::string_view name : listed) {
    absl::ConsumeSuffix(&name, kProving);
    int64_t number = 0;
    if (absl::ConsumePrefix(&name, kName) && absl::SimpleAtoi(name, &number)) {
      claimed.insert(Generation(number));
    }
  }
  return claimed;
}

// Of all earlier generations that left one; and of the last one before
// `generation`, whether or not it is listed.
absl::StatusOr<std::set<std::string>> EarlierClaims(const std::string& run_dir,
                                                    Generation generation,
                                                    FileOperations* files) {
  SLUICE_ASSIGN_OR_RETURN(std::set<Generation> claimed,
                          ListClaims(run_dir, files));
  claimed.insert(Generation(generation.value() - 1));
  std::set<std::string> paths;
  for (const Generation earlier : claimed) {
    if (earlier > Generation(0) && earlier < generation) {
      paths.insert(ClaimPath(run_dir, earlier));
    }
  }
  return paths;
}

// Whether a later generation has left its mark: its commit log comes before the
// claim of `generation` goes, and its own claim after that.
absl::StatusOr<bool> LaterIsThere(const std::string& run_dir,
                                  Generation generation,
                                  FileOperations* files) {
  SLUICE_ASSIGN_OR_RETURN(const std::set<Generation> claimed,
                          ListClaims(run_dir, files));
  SLUICE_ASSIGN_OR_RETURN(const std::vector<Generation> logs,
                          ListGenerations(run_dir, files));
  return (!claimed.empty() && *claimed.rbegin() > generation) ||
         (!logs.empty() && logs.back() > generation);
}

}  // namespace

absl::Status MakeClaim(const std::string& run_dir, Generation generation,
                       FileOperations* files) {
  SLUICE_ASSIGN_OR_RETURN(const std::set<std::string> earlier,
                          EarlierClaims(run_dir, generation, files));
  for (const std::string& path : earlier) {
    SLUICE_RETURN_IF_ERROR(EndClaim(path, files));
  }
  const std::string path = ClaimPath(run_dir, generation);
  SLUICE_ASSIGN_OR_RETURN(const int file, files->Create(path));
  SLUICE_RETURN_IF_ERROR(files->Close(file, path));
  // Whoever took a later generation either found this claim, and has ended it,
  // or had created its commit log before this claim was there to be found.
  SLUICE_ASSIGN_OR_RETURN(const std::vector<Generation> taken,
                          ListGenerations(run_dir, files));
  if (!taken.empty() && taken.back() > generation) {
    SLUICE_RETURN_IF_ERROR(files->Remove(path));
    return absl::PermissionDeniedError(absl::StrCat(
        run_dir, ": another process has taken generation ",
        taken.back().value(), " of the run: this one, which was to have ",
        generation.value(), ", is over"));
  }
  return files->SyncFolder(run_dir);
}

absl::Status ProveClaim(const std::string& run_dir, Generation generation,
                        FileOperations* files) {
  const std::string path = ClaimPath(run_dir, generation);
  const absl::Status there = files->Rename(path, path + kProving);
  // An earlier proof may have failed half-way: then the way back proves it.
  if (!there.ok() && !absl::IsNotFound(there)) return there;
  const absl::Status back = files->Rename(path + kProving, path);
  if (!absl::IsNotFound(back)) return back;
  const absl::StatusOr<bool> later = LaterIsThere(run_dir, generation, files);
  if (!later.ok() || !*later) {
    return absl::UnavailableError(absl::StrCat(
        path,
        ": is gone, and no later generation is there: the run folder is not "
        "what it was"));
  }
  return absl::PermissionDeniedError(
      absl::StrCat(path,
                   ": is gone: another process has taken the next "
                   "generation of the run: this one is over"));
}

}  // namespace sluice
