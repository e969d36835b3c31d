#ifndef SLUICE_COMMON_TELEMETRY_LOGGED_VALUES_H_
#define SLUICE_COMMON_TELEMETRY_LOGGED_VALUES_H_

#include <cstddef>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace sluice {

// What a user's program says of a task or an evaluation besides its loss, by
// name: "gradient_norm". A value may be NaN or infinite.
using LoggedValues = std::map<std::string, double>;

// Names that a task, an evaluation and a whole run may have.
inline constexpr size_t kMostLoggedNames = 64;
inline constexpr size_t kLongestLoggedName = 64;  // Characters.

// Sets the value of `name`. kInvalidArgument: the name is none, or one too
// many; says what was expected and what came.
absl::Status AddLogged(absl::string_view name, double value,
                       LoggedValues* values);

}  // namespace sluice

#endif  // SLUICE_COMMON_TELEMETRY_LOGGED_VALUES_H_
