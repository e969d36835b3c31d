#include "common/process_setup.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <initializer_list>

namespace sluice {
namespace {

constexpr int kErrorsInstead[] = {SIGPIPE, SIGXFSZ};

}  // namespace

void SetUpProcess() {
  for (const int number : kErrorsInstead) signal(number, SIG_IGN);
  signal(SIGCHLD, SIG_DFL);
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    // It gets the lowest number that is free: this one.
    if (fcntl(stream, F_GETFD) < 0) (void)!open("/dev/null", O_RDWR);
  }
}

void RestoreSignals() {
  for (const int number : kErrorsInstead) signal(number, SIG_DFL);
}

}  // namespace sluice
