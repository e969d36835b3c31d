#ifndef SLUICE_CLI_DEPLOY_KUBERNETES_OPTIONS_H_
#define SLUICE_CLI_DEPLOY_KUBERNETES_OPTIONS_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace sluice {

// What holds the pods of a job.
enum class PodHolder {
  kJobs,    // An Indexed Job for each role.
  kJobSet,  // One JobSet of these (jobset.x-k8s.io, v1alpha2).
  kPods,    // Nothing: bare pods on one host, over its loopback.
};

struct KubernetesOptions {
  // Of the objects: a DNS label (RFC 1123) of at most 40 characters, so that a
  // pod's name, which its role and number make longer, is one, too.
  std::string name;
  PodHolder holder = PodHolder::kJobs;
  std::string image;          // With the programs in its PATH.
  std::string storage;        // Of the run folder, as "10Gi".
  std::string storage_class;  // Empty: the cluster's default.
  // Of each pod that computes, asked for and at most, as "4Gi". Empty: as
  // `sluice check` computes it, and without a limit where `program` computes,
  // of which it knows nothing.
  std::string memory;
  bool gpu = false;                    // One for each worker and the evaluator.
  bool pod_monitor = false;            // For Prometheus' operator.
  bool insecure = false;               // Plain text between the pods.
  std::string job_text;                // The job file.
  std::vector<std::string> overrides;  // Each "a.b=c".
  std::vector<std::string> program;    // The model process; may be empty.
  // Files of each role's certificate by role and name. Empty: the Secrets are
  // somebody else's business (kubectl, cert-manager).
  std::map<std::string, std::map<std::string, std::string>> certificates;
};

// kInvalidArgument: a name or an option that Kubernetes would refuse, or that
// makes no sense beside another.
absl::Status CheckKubernetesOptions(const KubernetesOptions& options);

}  // namespace sluice

#endif  // SLUICE_CLI_DEPLOY_KUBERNETES_OPTIONS_H_
