#ifndef SLUICE_COMMON_PROCESS_NAME_H_
#define SLUICE_COMMON_PROCESS_NAME_H_

#include <sys/types.h>

#include <string>

namespace sluice {

// Of this host; "localhost" where it has no name.
std::string HostName();

// "host:pid" of a process of this host: how it names itself to the coordinator,
// and how whoever started it names it there.
std::string ProcessName(pid_t pid);
// The same of the calling process.
std::string ProcessName();

}  // namespace sluice

#endif  // SLUICE_COMMON_PROCESS_NAME_H_
