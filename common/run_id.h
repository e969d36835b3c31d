#ifndef SLUICE_COMMON_RUN_ID_H_
#define SLUICE_COMMON_RUN_ID_H_

#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"

// What tells a run from every other one, whatever folder holds it.
namespace sluice {

// A new one: 16 hexadecimal digits, another one for every process and time.
std::string DrawRunId(absl::Time now);

// Whether a person may name a run so: 1 to 64 letters, digits, '.', '_' and
// '-'. kInvalidArgument.
absl::Status CheckRunId(const std::string& id);

}  // namespace sluice

#endif  // SLUICE_COMMON_RUN_ID_H_
