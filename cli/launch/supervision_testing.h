#ifndef SLUICE_CLI_LAUNCH_SUPERVISION_TESTING_H_
#define SLUICE_CLI_LAUNCH_SUPERVISION_TESTING_H_

#include <cstdio>
#include <string>

#include "absl/time/time.h"
#include "cli/launch/supervision.h"

// Ends of children, for tests of Supervision.

namespace sluice {

inline const absl::Time kStart = absl::FromUnixSeconds(1000);

// "worker-2" is 2, "worker-2.1" member 1 of it.
inline int NumberIn(const std::string& name) {
  int number = 0, member = 0;
  std::sscanf(name.c_str(), "%*[^-]-%d.%d", &number, &member);
  return member > 0 ? NumberOfMember(number, member) : number;
}
inline PartEnd End(Part part, const std::string& name, const std::string& how) {
  return {.part = part, .number = NumberIn(name), .name = name, .how = how};
}
inline PartEnd Well(Part part, const std::string& name) {
  PartEnd end = End(part, name, "exit status 0");
  end.ok = true;
  return end;
}
inline PartEnd Badly(Part part, const std::string& name) {
  return End(part, name, "exit status 1");
}
inline PartEnd Killed(Part part, const std::string& name) {
  PartEnd end = End(part, name, "killed");
  end.killed = true;
  return end;
}

}  // namespace sluice

#endif  // SLUICE_CLI_LAUNCH_SUPERVISION_TESTING_H_
