#ifndef SLUICE_CLI_DEPLOY_KUBERNETES_MANIFESTS_H_
#define SLUICE_CLI_DEPLOY_KUBERNETES_MANIFESTS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/deploy/kubernetes_options.h"
#include "common/job/resolved_job.h"
#include "nlohmann/json.hpp"

namespace sluice {

// The objects that train a job, in the order in which they are to be made;
// `job` is that of `options.job_text` with `options.overrides`. Pure.
// kInvalidArgument: a name or an option that Kubernetes would refuse, or that
// makes no sense beside another or for the job.
absl::StatusOr<std::vector<nlohmann::ordered_json>> KubernetesManifests(
    const ResolvedJob& job, const KubernetesOptions& options);

// The names of the lead and of the other shards, which their certificates need.
std::vector<std::string> KubernetesHosts(const ResolvedJob& job,
                                         const KubernetesOptions& options);

}  // namespace sluice

#endif  // SLUICE_CLI_DEPLOY_KUBERNETES_MANIFESTS_H_
