#ifndef SLUICE_CLI_PLOT_RUN_LABELS_H_
#define SLUICE_CLI_PLOT_RUN_LABELS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace sluice {

// What the pictures call each of `folders`: `wanted` where it is not empty,
// else the folders' names, or their whole paths where two names are equal.
// kInvalidArgument: `wanted` are not as many, or two runs would be called
// alike.
absl::StatusOr<std::vector<std::string>> LabelsOf(
    const std::vector<std::string>& folders,
    const std::vector<std::string>& wanted);

}  // namespace sluice

#endif  // SLUICE_CLI_PLOT_RUN_LABELS_H_
