#ifndef SLUICE_CLI_DEPLOY_KUBERNETES_YAML_H_
#define SLUICE_CLI_DEPLOY_KUBERNETES_YAML_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"

namespace sluice {

// The objects as YAML documents, with `comment` (lines without "# ") before
// them.
std::string KubernetesYaml(absl::string_view comment,
                           const std::vector<nlohmann::ordered_json>& objects);

}  // namespace sluice

#endif  // SLUICE_CLI_DEPLOY_KUBERNETES_YAML_H_
