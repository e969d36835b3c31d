#ifndef SLUICE_COMMON_SECRET_H_
#define SLUICE_COMMON_SECRET_H_

#include <string>

#include "absl/strings/string_view.h"

namespace sluice {

// So many random bytes that nobody can guess, from the system.
std::string DrawSecret(int bytes);

// Whether they are the same; how long that takes shows nothing but the lengths.
bool SameSecret(absl::string_view a, absl::string_view b);

}  // namespace sluice

#endif  // SLUICE_COMMON_SECRET_H_
