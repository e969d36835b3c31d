#ifndef SLUICE_COMMON_RUN_ID_H_
#define SLUICE_COMMON_RUN_ID_H_

#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"

// Identifies a run, whatever folder holds it.
namespace sluice {

// A new id: 16 hexadecimal digits that depend on the process and the time.
std::string DrawRunId(absl::Time now);

// Checks an id given by a person: 1 to 64 letters, digits, '.', '_' and '-'.
// kInvalidArgument.
absl::Status CheckRunId(const std::string& id);

}  // namespace sluice

#endif  // SLUICE_COMMON_RUN_ID_H_
