#include "common/process/process_setup.h"

#include <cxxabi.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <exception>
#include <initializer_list>
#include <new>
#include <typeinfo>

namespace sluice {
namespace {

constexpr int kErrorsInstead[] = {SIGPIPE, SIGXFSZ};

constexpr char kOutOfMemory[] =
    "event=out_of_memory error=\"no memory for what it has to hold; `sluice "
    "check` says how much a job needs\"\n";

// Nothing is allocated here. It ends by a signal, as after any other fault: who
// is started again may find more memory.
[[noreturn]] void Terminate() {
  const std::type_info* thrown = abi::__cxa_current_exception_type();
  if (thrown != nullptr && *thrown == typeid(std::bad_alloc)) {
    (void)!write(STDERR_FILENO, kOutOfMemory, std::strlen(kOutOfMemory));
    std::abort();
  }
  __gnu_cxx::__verbose_terminate_handler();
  std::abort();
}

}  // namespace

void SetUpProcess() {
  for (const int number : kErrorsInstead) signal(number, SIG_IGN);
  signal(SIGCHLD, SIG_DFL);
  std::set_terminate(&Terminate);
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    // It gets the lowest number that is free: this one.
    if (fcntl(stream, F_GETFD) < 0) (void)!open("/dev/null", O_RDWR);
  }
}

void RestoreSignals() {
  for (const int number : kErrorsInstead) signal(number, SIG_DFL);
}

}  // namespace sluice
