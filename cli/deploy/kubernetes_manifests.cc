#include "cli/deploy/kubernetes_manifests.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "cli/report/job/check_report.h"
#include "common/job/group.h"
#include "common/job/job_text.h"
#include "common/job/model_command.h"
#include "common/process/exit_codes.h"
#include "common/status_macros.h"

namespace sluice {
namespace {

using Json = nlohmann::ordered_json;
using Words = std::vector<std::string>;

constexpr int kPort = 7000;
constexpr int kHttpPort = 8080;
constexpr int kScrapeSeconds = 15;
// The user of docker/Dockerfile, whose folder `run` belongs to it.
constexpr int kUser = 1000;
constexpr char kJobFolder[] = "/etc/sluice/job";
constexpr char kCertsFolder[] = "/etc/sluice/certs";
constexpr char kRunFolder[] = "/home/sluice/run";
// A pod that does not come back is missed for as long as it takes to schedule
// another, not for the ten minutes that are right where a person looks.
constexpr double kRejoinTimeoutS = 300;
// A pod that is pending, for a node is full or an image is large, comes in
// time: the run must not fail for it, since its Job would not begin again.
constexpr int kPendingS = 24 * 60 * 60;
// A process without its tensors: libraries, gRPC's buffers.
constexpr int64_t kOwnMebibytes = 512;
// For each pod of a Job. Kubernetes counts every one that a signal ended, or
// that ended with 75. The time between two grows to six minutes.
constexpr int kMostRestarts = 100;
// What Kubernetes puts in place of this is the pod's number within its Job.
constexpr char kIndex[] = "$(JOB_COMPLETION_INDEX)";

// Of a worker, or of one member of it.
std::string NameOfMember(int member) {
  return member == 0 ? "worker" : absl::StrCat("member-", member);
}

// The processes of one role, or of one member of all groups.
struct Part {
  std::string role;  // As in its certificate.
  int member = 0;    // Of a group.
  int count = 1;
  std::string program;
  Words args = {};
  int64_t bytes = 0;        // Of its tensors.
  int threads = 1;          // Of which it makes use.
  bool computes = false;    // With a GPU, if there is one.
  bool run_folder = false;  // Reads and writes it.

  std::string name() const {
    return role == "worker" ? NameOfMember(member) : role;
  }
};

// `words` as Kubernetes is to hand them on: it replaces $(NAME), and $$ by $.
Words Literally(Words words) {
  for (std::string& word : words) {
    word = absl::StrReplaceAll(word, {{"$", "$$"}});
  }
  return words;
}

void Append(const Words& more, Words* words) {
  words->insert(words->end(), more.begin(), more.end());
}

// Overrides for every daemon of the run: those of `options`, and how long each
// waits for the others. What the job itself says of that holds, but for the
// time in which a pod is missed.
absl::StatusOr<Words> OverridesOfAll(const ResolvedJob& job,
                                     const KubernetesOptions& options) {
  SLUICE_ASSIGN_OR_RETURN(proto::Job written,
                          ParseJobText(options.job_text, "job.textproto"));
  for (const std::string& one : options.overrides) {
    SLUICE_RETURN_IF_ERROR(ApplyOverride(one, &written));
  }
  // Of two that set a field the later one wins.
  Words overrides = options.overrides;
  if (job.job.limits().rejoin_timeout_s() > kRejoinTimeoutS) {
    overrides.push_back(
        absl::StrCat("limits.rejoin_timeout_s=", kRejoinTimeoutS));
  }
  if (options.holder == PodHolder::kPods) return overrides;  // Never pending.
  if (!written.limits().has_start_timeout_s()) {
    overrides.push_back(absl::StrCat("limits.start_timeout_s=", kPendingS));
  }
  if (!written.sync().has_shortage_timeout_s()) {
    overrides.push_back(absl::StrCat("sync.shortage_timeout_s=", kPendingS));
  }
  return overrides;
}

// kInvalidArgument: the pods would not have the GPU that the job asks for.
absl::Status CheckGpus(const proto::Worker& worker, bool gpu) {
  if (worker.device() == proto::CUDA && !gpu) {
    return absl::InvalidArgumentError(
        "worker.device: is CUDA, but pods have no GPU without --gpu");
  }
  for (const int number : worker.gpus()) {
    if (gpu && number != 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          "worker.gpus: a pod has one GPU with --gpu, which is number 0 there; "
          "expected no other, got ",
          number));
    }
  }
  return absl::OkStatus();
}

class Manifests {
 public:
  Manifests(const ResolvedJob& job, const KubernetesOptions& options)
      : job_(job),
        options_(options),
        check_(MakeCheckReport(job)),
        links_(LinksOfMembers(job.job)) {}

  std::vector<Json> All() const {
    const std::vector<Part> parts = Parts();
    std::vector<Json> all = {JobFile()};
    if (options_.holder == PodHolder::kPods) {
      for (const Part& part : parts) {
        for (int i = 0; i < part.count; ++i) all.push_back(BarePod(part, i));
      }
      // Podman makes a volume for a claim that it does not find, and would
      // refuse to make one that is there.
      return all;
    }
    all.push_back(RunFolder());
    for (const auto& [role, files] : options_.certificates) {
      all.push_back(Secret(role, files));
    }
    if (options_.holder == PodHolder::kJobs) all.push_back(Service());
    // Without the lead or a shard nobody trains; without one worker the others
    // do.
    const int members = static_cast<int>(links_.size());
    for (const auto& [role, least] :
         {std::pair("lead", 1), std::pair("shard", shards() - 1),
          std::pair("worker", (GroupsOf(job_.job) - 1) * members)}) {
      if (least > 0) all.push_back(DisruptionBudget(role, least));
    }
    if (options_.pod_monitor) all.push_back(PodMonitor());
    if (options_.holder == PodHolder::kJobSet) {
      all.push_back(JobSet(parts));
    } else {
      for (const Part& part : parts) all.push_back(IndexedJob(part));
    }
    return all;
  }

  // The name by which the others reach number `index` of a role.
  std::string Host(absl::string_view role, absl::string_view index) const {
    if (options_.holder == PodHolder::kPods) return "127.0.0.1";
    const char* first_job = options_.holder == PodHolder::kJobSet ? "-0-" : "-";
    return absl::StrCat(options_.name, "-", role, first_job, index, ".",
                        options_.name);
  }

 private:
  bool pods() const { return options_.holder == PodHolder::kPods; }
  int shards() const { return job_.job.cluster().shards(); }

  std::vector<Part> Parts() const {
    const std::string lead = absl::StrCat(Host("lead", "0"), ":", kPort);
    const std::string here = pods() ? "127.0.0.1:" : "0.0.0.0:";
    const Words run = {absl::StrCat("--run-dir=", kRunFolder)};
    Words to_lead = {absl::StrCat("--coordinator=", lead)};
    // A pod that ends with 0 has succeeded, and is not replaced.
    if (!pods()) to_lead.push_back("--yield");
    Words program = Literally(options_.program);
    if (!program.empty()) program.insert(program.begin(), "--");
    const int threads = std::max(1, job_.job.worker().threads());

    std::vector<Part> parts;
    Part leads{.role = "lead", .program = "ps_server", .run_folder = true};
    leads.bytes = check_.shards[0].total();
    leads.args = {"--shard=0", "--resume",
                  absl::StrCat("--listen=", here, kPort),
                  absl::StrCat("--advertise=", lead)};
    if (options_.pod_monitor) {
      // Its pod stays for three scrapes, so that the last one sees the end.
      leads.args.push_back(absl::StrCat("--http-linger=", 3 * kScrapeSeconds));
    }
    if (!pods()) leads.args.push_back("--yield");
    Append(run, &leads.args);
    parts.push_back(std::move(leads));
    if (shards() > 1) {
      Part others{.role = "shard",
                  .count = shards() - 1,
                  .program = "ps_server",
                  .run_folder = true};
      for (const ShardMemory& shard : check_.shards) {
        others.bytes = std::max(others.bytes, shard.total());
      }
      if (!pods()) {
        others.args = {
            absl::StrCat("--listen=", here, kPort),
            absl::StrCat("--advertise=", Host("shard", kIndex), ":", kPort)};
      }
      Append(to_lead, &others.args);
      Append(run, &others.args);
      parts.push_back(std::move(others));
    }
    for (size_t m = 0; m < links_.size(); ++m) {
      Part workers{.role = "worker",
                   .member = static_cast<int>(m),
                   .count = GroupsOf(job_.job),
                   .program = "worker",
                   .args = to_lead,
                   .bytes = check_.members.empty()
                                ? check_.worker.total()
                                : check_.members[m].memory.total(),
                   .threads = threads,
                   .computes = true};
      Append(program, &workers.args);
      parts.push_back(std::move(workers));
    }
    if (job_.job.evaluation().enabled()) {
      Part evaluator{.role = "evaluator",
                     .program = "evaluator",
                     .args = to_lead,
                     .bytes = check_.evaluator_bytes,
                     .threads = threads,
                     .computes = true,
                     .run_folder = true};
      Append(run, &evaluator.args);
      if (EvaluatorHasModelProcess(job_.job)) Append(program, &evaluator.args);
      parts.push_back(std::move(evaluator));
    }
    return parts;
  }

  // The command of number `index`, which a bare pod knows beforehand.
  Words Command(const Part& part, int index) const {
    if (part.role == "shard") {
      // The lead is shard 0.
      if (pods()) {
        return {"ps_server", absl::StrCat("--shard=", index + 1),
                absl::StrCat("--listen=127.0.0.1:", kPort + index + 1)};
      }
      return {"sh", "-c",
              "exec ps_server --shard=$$((JOB_COMPLETION_INDEX + 1)) \"$@\"",
              "ps_server"};
    }
    if (part.role == "worker") return WorkerCommand(part.member, index);
    return {part.program};
  }

  Words WorkerCommand(int member, int index) const {
    const std::string group = pods() ? absl::StrCat(index) : kIndex;
    // Bare pods share the ports of their host.
    const auto port = [&](int of) {
      return pods() ? kPort + shards() +
                          index * static_cast<int>(links_.size()) + of
                    : kPort;
    };
    Words words = {"worker", absl::StrCat("--worker=", group)};
    if (member > 0) words.push_back(absl::StrCat("--member=", member));
    for (const int upstream : links_[member].upstreams) {
      words.push_back(
          absl::StrCat("--upstream=", Host(NameOfMember(upstream), group), ":",
                       port(upstream)));
    }
    if (links_[member].listens) {
      words.push_back(absl::StrCat(
          "--listen=", pods() ? "127.0.0.1" : "0.0.0.0", ":", port(member)));
    }
    return words;
  }

  Words Arguments(const Part& part) const {
    Words words = {absl::StrCat("--job=", kJobFolder, "/job.textproto")};
    for (const std::string& one : Literally(options_.overrides)) {
      Append({"--set", one}, &words);
    }
    if (!pods()) {
      words.push_back(options_.insecure ? "--insecure"
                                        : absl::StrCat("--tls=", kCertsFolder));
    }
    // Bare pods share the ports of their host.
    if (!pods() || part.role == "lead") {
      words.push_back(absl::StrCat("--http=", pods() ? "127.0.0.1" : "0.0.0.0",
                                   ":", kHttpPort));
    }
    Append(part.args, &words);
    return words;
  }

  Json Labels(absl::string_view role) const {
    Json labels = {{"app.kubernetes.io/name", "sluice"},
                   {"app.kubernetes.io/instance", options_.name}};
    if (!role.empty()) labels["app.kubernetes.io/component"] = role;
    return labels;
  }

  Json Object(absl::string_view version, absl::string_view kind,
              absl::string_view suffix, absl::string_view role = "") const {
    return {{"apiVersion", version},
            {"kind", kind},
            {"metadata",
             {{"name", absl::StrCat(options_.name, suffix)},
              {"labels", Labels(role)}}}};
  }

  Json JobFile() const {
    Json object = Object("v1", "ConfigMap", "-job");
    object["data"] = {{"job.textproto", options_.job_text}};
    return object;
  }

  Json RunFolder() const {
    Json object = Object("v1", "PersistentVolumeClaim", "-run");
    object["spec"] = {
        {"accessModes", {"ReadWriteMany"}},
        {"resources", {{"requests", {{"storage", options_.storage}}}}}};
    if (!options_.storage_class.empty()) {
      object["spec"]["storageClassName"] = options_.storage_class;
    }
    return object;
  }

  Json Secret(const std::string& role,
              const std::map<std::string, std::string>& files) const {
    Json object = Object("v1", "Secret", absl::StrCat("-", role, "-tls"), role);
    for (const auto& [name, text] : files) {
      object["data"][name] = absl::Base64Escape(text);
    }
    return object;
  }

  // Gives the pods names before they are ready: they wait for one another.
  Json Service() const {
    Json object = Object("v1", "Service", "");
    object["spec"] = {{"clusterIP", "None"},
                      {"publishNotReadyAddresses", true},
                      {"selector", Labels("")},
                      {"ports", {{{"name", "grpc"}, {"port", kPort}}}}};
    return object;
  }

  Json DisruptionBudget(const std::string& role, int least) const {
    Json object = Object("policy/v1", "PodDisruptionBudget",
                         absl::StrCat("-", role), role);
    // A share would need a controller that can be scaled.
    object["spec"] = {{"minAvailable", least},
                      {"selector", {{"matchLabels", Labels(role)}}}};
    return object;
  }

  Json PodMonitor() const {
    Json object = Object("monitoring.coreos.com/v1", "PodMonitor", "");
    // The alerts of deploy/prometheus ask for the lead by the job "sluice"; the
    // others keep the PodMonitor's own, NAMESPACE/NAME.
    Json lead_is_sluice = {
        {"sourceLabels",
         {"__meta_kubernetes_pod_label_app_kubernetes_io_component"}},
        {"regex", "lead"},
        {"targetLabel", "job"},
        {"replacement", "sluice"}};
    object["spec"] = {
        {"selector", {{"matchLabels", Labels("")}}},
        // So that the lead's series of the others can be told from their own.
        {"podTargetLabels", {"app.kubernetes.io/component"}},
        {"podMetricsEndpoints",
         {{{"port", "http"},
           {"interval", absl::StrCat(kScrapeSeconds, "s")},
           {"relabelings", Json::array({std::move(lead_is_sluice)})}}}}};
    return object;
  }

  Json Volumes(const Part& part) const {
    Json volumes = {
        {{"name", "job"}, {"configMap", {{"name", options_.name + "-job"}}}}};
    if (part.run_folder) {
      volumes.push_back(
          {{"name", "run"},
           {"persistentVolumeClaim", {{"claimName", options_.name + "-run"}}}});
    }
    if (!pods() && !options_.insecure) {
      volumes.push_back({{"name", "certs"},
                         {"secret",
                          {{"secretName", absl::StrCat(options_.name, "-",
                                                       part.role, "-tls")},
                           {"defaultMode", 0440}}}});
    }
    return volumes;
  }

  Json Mounts(const Part& part) const {
    Json mounts = {
        {{"name", "job"}, {"mountPath", kJobFolder}, {"readOnly", true}}};
    if (part.run_folder) {
      mounts.push_back({{"name", "run"}, {"mountPath", kRunFolder}});
    }
    if (!pods() && !options_.insecure) {
      mounts.push_back(
          {{"name", "certs"}, {"mountPath", kCertsFolder}, {"readOnly", true}});
    }
    return mounts;
  }

  // A CPU limit would slow everybody down when one is throttled; a process that
  // takes twice the memory that `check` computes has a leak. What the user's
  // program needs is not known.
  Json Resources(const Part& part) const {
    const int64_t mebibytes =
        kOwnMebibytes + (part.bytes + (1 << 20) - 1) / (int64_t{1} << 20);
    const bool told = part.computes && !options_.memory.empty();
    const bool known = !part.computes || options_.program.empty();
    Json resources = {
        {"requests",
         {{"cpu", absl::StrCat(part.threads)},
          {"memory", told ? options_.memory : absl::StrCat(mebibytes, "Mi")}}}};
    if (told || known) {
      resources["limits"]["memory"] =
          told ? options_.memory : absl::StrCat(2 * mebibytes, "Mi");
    }
    if (options_.gpu && part.computes) {
      resources["limits"]["nvidia.com/gpu"] = "1";
    }
    return resources;
  }

  Json Container(const Part& part, int index) const {
    Json container = {{"name", "sluice"},
                      {"image", options_.image},
                      {"imagePullPolicy", "IfNotPresent"},
                      {"command", Command(part, index)},
                      {"args", Arguments(part)},
                      {"volumeMounts", Mounts(part)}};
    if (pods()) return container;
    container["securityContext"] = {{"allowPrivilegeEscalation", false},
                                    {"capabilities", {{"drop", {"ALL"}}}}};
    container["resources"] = Resources(part);
    container["ports"] = {{{"name", "http"}, {"containerPort", kHttpPort}}};
    if (part.role == "lead" || part.role == "shard" ||
        (part.role == "worker" && links_[part.member].listens)) {
      container["ports"].push_back(
          {{"name", "grpc"}, {"containerPort", kPort}});
    }
    container["readinessProbe"] = {
        {"httpGet", {{"path", "/readyz"}, {"port", "http"}}}};
    // Five minutes: a slow disk is no reason to lose the updates since the last
    // checkpoint.
    container["livenessProbe"] = {
        {"httpGet", {{"path", "/healthz"}, {"port", "http"}}},
        {"periodSeconds", 30},
        {"timeoutSeconds", 10},
        {"failureThreshold", 10}};
    return container;
  }

  Json PodSpec(const Part& part, int index) const {
    Json spec = {
        {"restartPolicy", pods() ? "OnFailure" : "Never"},
        // A worker hands its task back; the lead writes a checkpoint.
        {"terminationGracePeriodSeconds", part.role == "lead" ? 120 : 60},
        {"automountServiceAccountToken", false},
        {"securityContext",
         {{"runAsNonRoot", true},
          {"runAsUser", kUser},
          {"runAsGroup", kUser},
          {"fsGroup", kUser}}},
        {"containers", {Container(part, index)}},
        {"volumes", Volumes(part)}};
    if (pods()) {
      spec["hostNetwork"] = true;
      return spec;
    }
    // With that and the container's, what the Pod Security Standard
    // "restricted" asks for.
    Json& security = spec["securityContext"];
    security["seccompProfile"] = {{"type", "RuntimeDefault"}};
    // Or every pod would go through all files of the run folder.
    security["fsGroupChangePolicy"] = "OnRootMismatch";
    if (options_.holder == PodHolder::kJobs) spec["subdomain"] = options_.name;
    return spec;
  }

  Json BarePod(const Part& part, int index) const {
    Json object = Object("v1", "Pod",
                         absl::StrCat("-", part.name(), "-", index), part.role);
    object["spec"] = PodSpec(part, index);
    return object;
  }

  Json JobSpec(const Part& part) const {
    Json exits = {{"action", "FailJob"},
                  {"onExitCodes",
                   {{"containerName", "sluice"},
                    {"operator", "In"},
                    {"values", {kExitFailed, kExitUsage, kExitSuperseded}}}}};
    // An eviction is nobody's failure.
    Json evictions = {{"action", "Ignore"},
                      {"onPodConditions",
                       {{{"type", "DisruptionTarget"}, {"status", "True"}}}}};
    return {{"completionMode", "Indexed"},
            {"completions", part.count},
            {"parallelism", part.count},
            {"backoffLimit", kMostRestarts * part.count},
            {"podFailurePolicy", {{"rules", {exits, evictions}}}},
            {"template",
             {{"metadata", {{"labels", Labels(part.role)}}},
              {"spec", PodSpec(part, 0)}}}};
  }

  Json IndexedJob(const Part& part) const {
    Json object =
        Object("batch/v1", "Job", absl::StrCat("-", part.name()), part.role);
    object["spec"] = JobSpec(part);
    return object;
  }

  Json JobSet(const std::vector<Part>& parts) const {
    Json object = Object("jobset.x-k8s.io/v1alpha2", "JobSet", "");
    Json jobs = Json::array();
    for (const Part& part : parts) {
      jobs.push_back({{"name", part.name()},
                      {"replicas", 1},
                      {"template", {{"spec", JobSpec(part)}}}});
    }
    object["spec"] = {{"network",
                       {{"enableDNSHostnames", true},
                        {"publishNotReadyAddresses", true},
                        {"subdomain", options_.name}}},
                      {"successPolicy", {{"operator", "All"}}},
                      {"failurePolicy", {{"maxRestarts", 0}}},
                      {"replicatedJobs", jobs}};
    return object;
  }

  const ResolvedJob& job_;
  const KubernetesOptions& options_;
  const CheckReport check_;
  const std::vector<MemberLinks> links_;  // Of each group.
};

}  // namespace

absl::StatusOr<std::vector<Json>> KubernetesManifests(
    const ResolvedJob& job, const KubernetesOptions& options) {
  SLUICE_RETURN_IF_ERROR(CheckKubernetesOptions(options));
  SLUICE_RETURN_IF_ERROR(CheckGpus(job.job.worker(), options.gpu));
  KubernetesOptions all = options;
  SLUICE_ASSIGN_OR_RETURN(all.overrides, OverridesOfAll(job, options));
  return Manifests(job, all).All();
}

std::vector<std::string> KubernetesHosts(const ResolvedJob& job,
                                         const KubernetesOptions& options) {
  const Manifests manifests(job, options);
  std::vector<std::string> hosts = {manifests.Host("lead", "0")};
  for (int s = 1; s < job.job.cluster().shards(); ++s) {
    hosts.push_back(manifests.Host("shard", absl::StrCat(s - 1)));
  }
  return hosts;
}

}  // namespace sluice
