#ifndef SLUICE_COMMON_PROCESS_PROCESS_NAME_H_
#define SLUICE_COMMON_PROCESS_PROCESS_NAME_H_

#include <sys/types.h>

#include <string>

namespace sluice {

// The name of this host; "localhost" if it has none.
std::string HostName();

// "host:pid" of a process of this host. A process names itself so to the
// coordinator, and its parent uses the same name to report its death.
std::string ProcessName(pid_t pid);
// The name of the calling process.
std::string ProcessName();

}  // namespace sluice

#endif  // SLUICE_COMMON_PROCESS_PROCESS_NAME_H_
