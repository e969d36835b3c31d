#include "bench/scratch_folder.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"

namespace sluice::bench {
namespace {

std::string Make(const std::string& folder, const std::string& name) {
  std::string path = absl::StrCat(folder, "/", name, "_", getpid(), "_XXXXXX");
  if (mkdtemp(path.data()) != nullptr) return path;
  std::fprintf(stderr, "%s: %s\n", path.c_str(), std::strerror(errno));
  std::_Exit(1);
}

void Remove(const std::string& path) {
  std::error_code error;
  std::filesystem::remove_all(path, error);
}

// A child removes the folder when this process has ended, however it does: the
// pipe between them is closed then. Returns this process's end of it.
int RemoveAtTheEnd(const std::string& path) {
  int ends[2];
  if (pipe(ends) != 0) return -1;
  if (fork() != 0) {
    close(ends[0]);
    return ends[1];
  }
  setsid();  // The terminal's Ctrl-C is not for it.
  close(ends[1]);
  char none;
  while (read(ends[0], &none, 1) < 0 && errno == EINTR) {
  }
  Remove(path);
  _exit(0);
}

}  // namespace

ScratchFolder::ScratchFolder(const std::string& folder, const std::string& name)
    : path_(Make(folder, name)), lives_(RemoveAtTheEnd(path_)) {}

ScratchFolder::~ScratchFolder() {
  Remove(path_);
  close(lives_);
}

}  // namespace sluice::bench
