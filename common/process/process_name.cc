#include "common/process/process_name.h"

#include <unistd.h>

#include <climits>

#include "absl/strings/str_cat.h"

namespace sluice {

std::string HostName() {
  char name[HOST_NAME_MAX + 1] = {};
  return gethostname(name, HOST_NAME_MAX) == 0 ? name : "localhost";
}

std::string ProcessName(pid_t pid) {
  return absl::StrCat(HostName(), ":", pid);
}

std::string ProcessName() { return ProcessName(getpid()); }

}  // namespace sluice
