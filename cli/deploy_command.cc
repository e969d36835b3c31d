#include <CLI/CLI.hpp>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <sstream>
#include <string>
#include <system_error>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "cli/commands.h"
#include "cli/deploy/kubernetes_manifests.h"
#include "cli/deploy/kubernetes_yaml.h"
#include "cli/job_flags.h"
#include "common/clock.h"
#include "common/job/model_command.h"
#include "common/status_macros.h"
#include "common/telemetry/json_text.h"
#include "common/tls/identity.h"
#include "common/tls/tls_files.h"
#include "common/tls/tls_flags.h"

namespace sluice {
namespace {

struct DeployFlags {
  JobFlags job;
  KubernetesOptions options;
  std::string tls;
  bool pods = false;
  bool jobset = false;
  bool json = false;
};

absl::StatusOr<std::string> Contents(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  if (in) return text.str();
  return absl::NotFoundError(absl::StrCat(path.string(), ": cannot be read"));
}

// A pipe would be empty the second time, and so would the job of the pods.
absl::Status CheckReadTwice(const std::string& job) {
  std::error_code error;
  if (!std::filesystem::exists(job, error) ||
      std::filesystem::is_regular_file(job, error)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat(job, ": expected a regular file, for it is read twice"));
}

// The files of every role that has pods, from a folder of `sluice certs` for
// `job`, as the pods would check them.
absl::Status ReadCertificates(const std::string& folder, const std::string& job,
                              KubernetesOptions* options) {
  for (const TlsRole role : kTlsRoles) {
    if (role == TlsRole::kOperator) continue;
    const std::string name(TlsRoleName(role));
    TlsFlags flags;
    flags.folder = (std::filesystem::path(folder) / name).string();
    SLUICE_ASSIGN_OR_RETURN(const auto files, FilesOf(flags));
    SLUICE_RETURN_IF_ERROR(
        CheckOwnFiles(*files, job, role, Clock::Real()->Now()).status());
    for (const char* file : {"ca.crt", "ca.crl", "tls.crt", "tls.key"}) {
      SLUICE_ASSIGN_OR_RETURN(
          options->certificates[name][file],
          Contents(std::filesystem::path(folder) / name / file));
    }
  }
  return absl::OkStatus();
}

// What the reader has to know and do first.
std::string Comment(const ResolvedJob& job, const KubernetesOptions& options) {
  const std::string& name = options.name;
  std::string text =
      absl::StrCat("Trains the job ", job.job.name(),
                   " (docs/kubernetes.md). Made by: sluice deploy kubernetes");
  if (options.holder == PodHolder::kPods) {
    return absl::StrCat(text, "\nOn one host: podman play kube FILE");
  }
  if (options.insecure) {
    return absl::StrCat(text, "\nThe pods talk in plain text (--insecure).");
  }
  if (!options.certificates.empty()) {
    return absl::StrCat(text,
                        "\nThis file holds the keys of the certificates.");
  }
  return absl::StrCat(
      text, "\nThe certificates are not in it:\n  sluice certs certs --job ",
      job.job.name(), " --hosts ",
      absl::StrJoin(KubernetesHosts(job, options), ","),
      "\n  for role in lead shard worker evaluator; do\n"
      "    kubectl create secret generic ",
      name, "-$role-tls --from-file=certs/$role\n  done");
}

absl::Status PrintManifests(DeployFlags flags) {
  KubernetesOptions& options = flags.options;
  SLUICE_RETURN_IF_ERROR(CheckReadTwice(flags.job.path));
  SLUICE_ASSIGN_OR_RETURN(const ResolvedJob job, flags.job.Load());
  SLUICE_RETURN_IF_ERROR(CheckModelCommand(job.job, options.program));
  SLUICE_ASSIGN_OR_RETURN(options.job_text, Contents(flags.job.path));
  options.overrides = flags.job.Overrides();
  if (options.name.empty()) {
    options.name = absl::StrReplaceAll(job.job.name(), {{"_", "-"}});
  }
  if (flags.pods) options.holder = PodHolder::kPods;
  if (flags.jobset) options.holder = PodHolder::kJobSet;
  if (!flags.tls.empty()) {
    SLUICE_RETURN_IF_ERROR(
        ReadCertificates(flags.tls, job.job.name(), &options));
  }
  SLUICE_ASSIGN_OR_RETURN(const std::vector<nlohmann::ordered_json> objects,
                          KubernetesManifests(job, options));
  if (flags.json) {
    std::cout << JsonText({{"apiVersion", "v1"},
                           {"kind", "List"},
                           {"items", objects}},
                          2)
              << "\n";
  } else {
    std::cout << KubernetesYaml(Comment(job, options), objects);
  }
  return absl::OkStatus();
}

}  // namespace

void AddDeployCommand(CLI::App& app, int* exit_code) {
  CLI::App* deploy = app.add_subcommand(
      "deploy", "Print what a cluster's scheduler needs to train a job");
  deploy->require_subcommand(1);
  CLI::App* command = deploy->add_subcommand(
      "kubernetes", "Print the objects for Kubernetes, as YAML");
  auto flags = std::make_shared<DeployFlags>();
  KubernetesOptions& options = flags->options;
  flags->job.AddTo(*command);
  command
      ->add_option("--image", options.image,
                   "Image with the programs and the data")
      ->required();
  command->add_option("--name", options.name,
                      "Name of the objects. Default: the job's");
  command
      ->add_option("--storage", options.storage,
                   "Size of the run folder's claim")
      ->default_str("10Gi");
  options.storage = "10Gi";
  command->add_option("--memory", options.memory,
                      "Of each pod that computes, as 4Gi. Default: what check "
                      "computes, and at most twice that; without a limit where "
                      "a command follows --, whose memory is its own");
  command->add_option("--storage-class", options.storage_class,
                      "Its class, which many pods can write to. Default: the "
                      "cluster's");
  command->add_option("--tls", flags->tls,
                      "Folder of `sluice certs`, whose certificates and keys "
                      "are printed as Secrets. Default: Secrets that exist");
  command->add_flag("--insecure", options.insecure,
                    "Plain text between the pods");
  command->add_flag("--gpu", options.gpu,
                    "One GPU (nvidia.com/gpu) for each worker and for the "
                    "evaluator");
  command->add_flag("--pod-monitor", options.pod_monitor,
                    "A PodMonitor for Prometheus' operator");
  auto* jobset =
      command->add_flag("--jobset", flags->jobset, "One JobSet, not Jobs");
  command
      ->add_flag("--pods", flags->pods,
                 "Bare pods for one host, as `podman play kube` takes them")
      ->excludes(jobset);
  command->add_flag("--json", flags->json, "Print one List in JSON");
  AddModelCommand(command, &options.program);
  command->callback([flags, exit_code] {
    const absl::Status printed = PrintManifests(*flags);
    if (printed.ok()) return;
    std::cerr << printed.message() << "\n";
    *exit_code = 2;
  });
}

}  // namespace sluice
