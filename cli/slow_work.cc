#include "cli/slow_work.h"

#include <signal.h>

#include <fstream>
#include <iostream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cli/launch/progress.h"
#include "common/await_for.h"
#include "common/clock.h"
#include "common/process/named_thread.h"

namespace sluice {
namespace {

// Bytes that this process has read so far, from files and all else; 0 where the
// system does not say.
int64_t BytesRead() {
  std::ifstream io("/proc/self/io");
  std::string name;
  int64_t bytes = 0;
  return io >> name >> bytes && name == "rchar:" ? bytes : 0;
}

}  // namespace

SlowWork::SlowWork(std::string command, std::string counted, Options options)
    : command_(std::move(command)),
      counted_(std::move(counted)),
      options_(std::move(options)) {
  // The thread takes no signal: whoever waits for them (SignalWait) may do so
  // after this has begun.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = StartThread("slow work", [this] { Loop(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

SlowWork::~SlowWork() {
  {
    absl::MutexLock lock(&mu_);
    over_ = true;
  }
  thread_.join();
}

void SlowWork::At(int64_t done, const std::string& waits_for) {
  absl::MutexLock lock(&mu_);
  done_ = done;
  waits_for_ = waits_for;
}

std::string SlowWork::Line(absl::Duration passed) const {
  std::string line = absl::StrCat(
      command_, ": ", FormatSeconds(absl::ToDoubleSeconds(passed)), ", ");
  if (done_ < 0) {
    absl::StrAppend(&line, BytesRead() / 1000000, " MB read");
  } else {
    absl::StrAppend(&line, counted_, " ", done_);
  }
  if (!waits_for_.empty()) absl::StrAppend(&line, ", waiting for ", waits_for_);
  return line;
}

void SlowWork::Loop() {
  const absl::Time begun = Clock::Real()->Now();
  absl::Duration pause = options_.first;
  while (true) {
    std::string line;
    {
      absl::MutexLock lock(&mu_);
      if (AwaitFor(&mu_, absl::Condition(&over_), pause)) return;
      line = Line(Clock::Real()->Now() - begun);
    }
    pause = options_.every;
    if (options_.say) {
      options_.say(line);
    } else {
      std::cerr << line << std::endl;
    }
  }
}

}  // namespace sluice
