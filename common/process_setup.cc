#include "common/process_setup.h"

#include <signal.h>

namespace sluice {

void SetUpProcess() { signal(SIGCHLD, SIG_DFL); }

}  // namespace sluice
