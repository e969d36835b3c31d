#include "bench/scratch_folder.h"

#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <system_error>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"

namespace sluice::bench {
namespace {

// Those that are there. Never destroyed: an exit comes at any time.
struct Folders {
  absl::Mutex mu;
  std::set<std::string> paths;
};
Folders& All() {
  static auto* const folders = new Folders;
  return *folders;
}

void Remove(const std::set<std::string>& paths) {
  std::error_code error;
  for (const std::string& path : paths) {
    std::filesystem::remove_all(path, error);
  }
}

// A child removes the folders once this process, which goes on to fill them,
// has ended: the pipe between them closes then.
void RemoveAfterTheEnd(const std::set<std::string>& paths) {
  int ends[2];
  if (pipe(ends) != 0 || fork() != 0) return;
  close(ends[1]);
  char none;
  while (read(ends[0], &none, 1) < 0 && errno == EINTR) {
  }
  Remove(paths);
  _exit(0);
}

// A thread takes the signals, and ends the benchmark by the one that came.
bool WatchForTheEnd() {
  std::atexit([] {
    absl::MutexLock lock(&All().mu);
    Remove(All().paths);
  });
  sigset_t taken;
  sigemptyset(&taken);
  sigaddset(&taken, SIGINT);
  sigaddset(&taken, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &taken, nullptr);
  std::thread([taken] {
    int number = 0;
    if (sigwait(&taken, &number) != 0) return;
    absl::MutexLock lock(&All().mu);
    RemoveAfterTheEnd(All().paths);
    signal(number, SIG_DFL);
    pthread_sigmask(SIG_UNBLOCK, &taken, nullptr);
    raise(number);
  }).detach();
  return true;
}

}  // namespace

ScratchFolder::ScratchFolder(const std::string& folder, const std::string& name)
    : path_(absl::StrCat(folder, "/", name, "_", getpid())) {
  static const bool watched = WatchForTheEnd();
  (void)watched;
  absl::MutexLock lock(&All().mu);
  std::error_code error;
  std::filesystem::create_directories(path_, error);
  if (error) {
    std::fprintf(stderr, "%s: %s\n", path_.c_str(), error.message().c_str());
    std::_Exit(1);
  }
  All().paths.insert(path_);
}

ScratchFolder::~ScratchFolder() {
  absl::MutexLock lock(&All().mu);
  Remove({path_});
  All().paths.erase(path_);
}

}  // namespace sluice::bench
