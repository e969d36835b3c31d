#include "cli/deploy/kubernetes_manifests.h"

#include <map>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using Json = nlohmann::ordered_json;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;
using ::testing::Not;

constexpr char kJob[] = R"(
name: "linear"
cluster { workers: 4 shards: 3 }
sync { policy: K_SYNC k: 2 }
optimizer { learning_rate: 0.1 }
data { linear_regression { features: 99 train_samples: 1000 }
       batch_size: 100 }
model { layer { dense { units: 1 } } }
stop { epochs: 5 }
)";

KubernetesOptions Options() {
  KubernetesOptions options;
  options.name = "linear";
  options.image = "sluice";
  options.storage = "10Gi";
  options.job_text = kJob;
  return options;
}

std::vector<Json> Made(KubernetesOptions options,
                       const std::vector<std::string>& overrides = {}) {
  options.overrides = overrides;
  const auto job = ParseJob(kJob, "job", overrides);
  EXPECT_TRUE(job.ok()) << job.status();
  const auto made = KubernetesManifests(*job, options);
  EXPECT_TRUE(made.ok()) << made.status();
  return *made;
}

// The objects of a kind by name.
std::map<std::string, Json> OfKind(const std::string& kind,
                                   const std::vector<Json>& objects) {
  std::map<std::string, Json> found;
  for (const Json& object : objects) {
    if (object["kind"] == kind) found[object["metadata"]["name"]] = object;
  }
  return found;
}

Json PodOf(const Json& job) { return job["spec"]["template"]["spec"]; }

std::vector<std::string> ArgsOf(const Json& pod) {
  return pod["containers"][0]["args"];
}

TEST(KubernetesManifestsTest, EveryRoleIsAnIndexedJobOfItsSize) {
  const auto jobs = OfKind("Job", Made(Options()));
  std::map<std::string, int> sizes;
  for (const auto& [name, job] : jobs) {
    sizes[name] = job["spec"]["completions"];
    EXPECT_EQ(job["spec"]["parallelism"], job["spec"]["completions"]);
    EXPECT_EQ(job["spec"]["completionMode"], "Indexed");
    EXPECT_EQ(PodOf(job)["restartPolicy"], "Never");
    EXPECT_EQ(
        job["spec"]["podFailurePolicy"]["rules"][0]["onExitCodes"]["values"],
        Json({1, 2, 3}));
  }
  EXPECT_EQ(sizes, (std::map<std::string, int>{{"linear-lead", 1},
                                               {"linear-shard", 2},
                                               {"linear-worker", 4},
                                               {"linear-evaluator", 1}}));
}

TEST(KubernetesManifestsTest, TheEvaluatorOfASplitModelNeedsNoMoreThanAMember) {
  const auto jobs = OfKind(
      "Job",
      Made(Options(),
           {"model={ loss: MEAN_SQUARED_ERROR layer { dense { units: 8192 } } "
            "layer { dense { units: 8192 } } layer { dense { units: 8192 } } "
            "layer { dense { units: 1 } } }",
            "worker.group={ pipeline_stages: 3 }"}));
  const auto mebibytes = [&](const std::string& name) {
    const std::string text = PodOf(
        jobs.at(name))["containers"][0]["resources"]["requests"]["memory"];
    return std::stoi(text);
  };
  EXPECT_LT(mebibytes("linear-evaluator"), mebibytes("linear-member-1"));
}

TEST(KubernetesManifestsTest, WhatAJobDoesNotHaveGetsNoPods) {
  const auto objects = Made(
      Options(),
      {"cluster.shards=1", "evaluation.enabled=false", "cluster.workers=2"});
  const auto jobs = OfKind("Job", objects);
  EXPECT_EQ(jobs.size(), 2);
  EXPECT_TRUE(jobs.contains("linear-lead"));
  EXPECT_TRUE(jobs.contains("linear-worker"));
  EXPECT_FALSE(OfKind("PodDisruptionBudget", objects).contains("linear-shard"));
}

TEST(KubernetesManifestsTest, APodHasTheCertificateOfItsRoleAlone) {
  for (const auto& [name, job] : OfKind("Job", Made(Options()))) {
    std::vector<std::string> secrets;
    const Json pod = PodOf(job);
    for (const Json& volume : pod["volumes"]) {
      if (volume.contains("secret")) {
        secrets.push_back(volume["secret"]["secretName"]);
      }
    }
    EXPECT_THAT(secrets, ElementsAre(name + "-tls"));
    EXPECT_THAT(ArgsOf(pod), Contains("--tls=/etc/sluice/certs"));
  }
}

TEST(KubernetesManifestsTest, WithoutTlsNothingAsksForACertificate) {
  KubernetesOptions options = Options();
  options.insecure = true;
  for (const auto& [name, job] : OfKind("Job", Made(options))) {
    EXPECT_THAT(PodOf(job).dump(), Not(HasSubstr("secret"))) << name;
    EXPECT_THAT(ArgsOf(PodOf(job)), Contains("--insecure"));
  }
}

TEST(KubernetesManifestsTest, CertificatesThatAreGivenBecomeSecrets) {
  KubernetesOptions options = Options();
  options.certificates["worker"]["tls.key"] = "key\n";
  const auto secrets = OfKind("Secret", Made(options));
  ASSERT_EQ(secrets.size(), 1);
  EXPECT_EQ(secrets.at("linear-worker-tls")["data"]["tls.key"], "a2V5Cg==");
}

TEST(KubernetesManifestsTest, EveryPodHasAPortForProbesAndPrometheus) {
  KubernetesOptions options = Options();
  options.pod_monitor = true;
  const auto objects = Made(options);
  const auto jobs = OfKind("Job", objects);
  EXPECT_EQ(jobs.size(), 4);
  for (const auto& [name, job] : jobs) {
    const Json container = PodOf(job)["containers"][0];
    EXPECT_THAT(ArgsOf(PodOf(job)), Contains("--http=0.0.0.0:8080")) << name;
    EXPECT_EQ(container["ports"][0],
              Json({{"name", "http"}, {"containerPort", 8080}}));
    EXPECT_EQ(container["readinessProbe"]["httpGet"]["path"], "/readyz");
    EXPECT_EQ(container["livenessProbe"]["httpGet"]["path"], "/healthz");
  }
  EXPECT_THAT(ArgsOf(PodOf(jobs.at("linear-lead"))),
              Contains("--http-linger=45"));
  const Json monitor = OfKind("PodMonitor", objects).at("linear")["spec"];
  // The lead's job is named as deploy/prometheus/sluice.rules.yml names it.
  EXPECT_EQ(monitor["podMetricsEndpoints"][0]["relabelings"],
            Json::array(
                {{{"sourceLabels",
                   {"__meta_kubernetes_pod_label_app_kubernetes_io_component"}},
                  {"regex", "lead"},
                  {"targetLabel", "job"},
                  {"replacement", "sluice"}}}));
  const Json labels = monitor["selector"]["matchLabels"];
  EXPECT_EQ(labels["app.kubernetes.io/instance"], "linear");
  EXPECT_FALSE(labels.contains("app.kubernetes.io/component"));
  EXPECT_THAT(ArgsOf(PodOf(OfKind("Job", Made(Options())).at("linear-lead"))),
              Not(Contains(HasSubstr("--http-linger"))));
}

TEST(KubernetesManifestsTest, TheOthersFindTheLeadByTheNameOfItsPod) {
  const auto jobs = OfKind("Job", Made(Options()));
  EXPECT_EQ(PodOf(jobs.at("linear-lead"))["subdomain"], "linear");
  for (const char* role : {"shard", "worker", "evaluator"}) {
    EXPECT_THAT(ArgsOf(PodOf(jobs.at(absl::StrCat("linear-", role)))),
                Contains("--coordinator=linear-lead-0.linear:7000"));
  }
  const auto job = ParseJob(kJob, "job", {});
  EXPECT_THAT(KubernetesHosts(*job, Options()),
              ElementsAre("linear-lead-0.linear", "linear-shard-0.linear",
                          "linear-shard-1.linear"));
}

TEST(KubernetesManifestsTest, AJobSetHoldsTheSameJobs) {
  KubernetesOptions options = Options();
  options.holder = PodHolder::kJobSet;
  const auto objects = Made(options);
  EXPECT_TRUE(OfKind("Job", objects).empty());
  const Json set = OfKind("JobSet", objects).at("linear");
  EXPECT_EQ(set["spec"]["replicatedJobs"].size(), 4);
  for (const Json& job : set["spec"]["replicatedJobs"]) {
    if (job["name"] == "lead") continue;
    EXPECT_THAT(ArgsOf(PodOf(job["template"])),
                Contains("--coordinator=linear-lead-0-0.linear:7000"));
  }
}

TEST(KubernetesManifestsTest, BarePodsListenOnPortsOfTheirOwn) {
  KubernetesOptions options = Options();
  options.holder = PodHolder::kPods;
  const auto pods = OfKind("Pod", Made(options));
  EXPECT_EQ(pods.size(), 1 + 2 + 4 + 1);
  const Json command =
      pods.at("linear-shard-1")["spec"]["containers"][0]["command"];
  EXPECT_EQ(command,
            Json({"ps_server", "--shard=2", "--listen=127.0.0.1:7002"}));
  EXPECT_TRUE(pods.at("linear-worker-3")["spec"]["hostNetwork"]);
}

TEST(KubernetesManifestsTest, MemoryIsWhatCheckComputesAndTheProcessItself) {
  const auto small = OfKind("Job", Made(Options()));
  // A million weights: 4 MB each for the worker's two copies of the weights and
  // its gradient.
  const auto large =
      OfKind("Job", Made(Options(), {"data.linear_regression.features=1000000",
                                     "data.linear_regression.train_samples=1",
                                     "data.batch_size=1"}));
  const auto requested = [](const Json& job) {
    const std::string text =
        PodOf(job)["containers"][0]["resources"]["requests"]["memory"];
    EXPECT_TRUE(absl::EndsWith(text, "Mi"));
    return std::stoi(text);
  };
  EXPECT_EQ(requested(small.at("linear-worker")), 512 + 1);
  EXPECT_GT(requested(large.at("linear-worker")), 512 + 11);
}

TEST(KubernetesManifestsTest, APodIsWaitedForAtMostFiveMinutes) {
  const auto args = [](const std::vector<std::string>& overrides) {
    return ArgsOf(
        PodOf(OfKind("Job", Made(Options(), overrides)).at("linear-worker")));
  };
  EXPECT_THAT(args({}), Contains("limits.rejoin_timeout_s=300"));
  EXPECT_THAT(args({"limits.rejoin_timeout_s=20"}),
              Not(Contains("limits.rejoin_timeout_s=300")));
}

TEST(KubernetesManifestsTest,
     APodMayBePendingForADayUnlessTheJobSaysOtherwise) {
  const auto args = [](const std::string& role,
                       const std::vector<std::string>& overrides) {
    return ArgsOf(
        PodOf(OfKind("Job", Made(Options(), overrides)).at("linear-" + role)));
  };
  for (const char* role : {"lead", "shard", "worker", "evaluator"}) {
    EXPECT_THAT(args(role, {}), IsSupersetOf({"limits.start_timeout_s=86400",
                                              "sync.shortage_timeout_s=86400"}))
        << role;
    // Also if that is the default.
    EXPECT_THAT(args(role, {"limits.start_timeout_s=300",
                            "sync.shortage_timeout_s=60"}),
                Not(Contains(HasSubstr("=86400"))))
        << role;
  }
}

TEST(KubernetesManifestsTest, EveryPodMayBeReplacedAHundredTimes) {
  for (const auto& [name, job] : OfKind("Job", Made(Options()))) {
    EXPECT_EQ(job["spec"]["backoffLimit"],
              100 * job["spec"]["completions"].get<int>())
        << name;
  }
}

TEST(KubernetesManifestsTest, PodsMayRunWhereOnlyRestrictedOnesMay) {
  for (const auto& [name, job] : OfKind("Job", Made(Options()))) {
    const Json pod = PodOf(job)["securityContext"];
    EXPECT_EQ(pod["runAsNonRoot"], true) << name;
    EXPECT_EQ(pod["seccompProfile"]["type"], "RuntimeDefault") << name;
    EXPECT_EQ(pod["fsGroupChangePolicy"], "OnRootMismatch") << name;
    const Json container = PodOf(job)["containers"][0]["securityContext"];
    EXPECT_EQ(container["allowPrivilegeEscalation"], false) << name;
    EXPECT_EQ(container["capabilities"]["drop"], Json::array({"ALL"})) << name;
  }
}

TEST(KubernetesManifestsTest, RefusesGpusThatThePodsDoNotHave) {
  const auto made = [](bool gpu, const std::vector<std::string>& overrides) {
    KubernetesOptions options = Options();
    options.gpu = gpu;
    const auto job = ParseJob(kJob, "job", overrides);
    EXPECT_TRUE(job.ok()) << job.status();
    return KubernetesManifests(*job, options).status();
  };
  EXPECT_TRUE(made(true, {"worker.device=CUDA"}).ok());
  EXPECT_TRUE(made(true, {"worker.device=CUDA", "worker.gpus=[0]"}).ok());
  EXPECT_TRUE(made(false, {"worker.device=AUTO"}).ok());
  EXPECT_THAT(std::string(made(false, {"worker.device=CUDA"}).message()),
              HasSubstr("without --gpu"));
  EXPECT_THAT(
      std::string(
          made(true, {"worker.device=CUDA", "worker.gpus=[0, 1]"}).message()),
      HasSubstr("got 1"));
}

TEST(KubernetesManifestsTest, TheMemoryOfAProgramIsWhatTheUserSays) {
  KubernetesOptions options = Options();
  options.program = {"python3", "train.py"};
  const auto resources = [&options](const std::string& role) {
    const auto jobs = OfKind("Job", Made(options));
    return PodOf(jobs.at("linear-" + role))["containers"][0]["resources"];
  };
  EXPECT_FALSE(resources("worker").contains("limits"));
  EXPECT_TRUE(resources("shard")["limits"].contains("memory"));
  options.memory = "4Gi";
  EXPECT_EQ(resources("worker")["requests"]["memory"], "4Gi");
  EXPECT_EQ(resources("worker")["limits"]["memory"], "4Gi");
  EXPECT_NE(resources("shard")["requests"]["memory"], "4Gi");
}

TEST(KubernetesManifestsTest, TheUsersWordsReachTheProgramAsTheyAre) {
  KubernetesOptions options = Options();
  options.program = {"sh", "-c", "echo $(HOME) $$ $$(HOME)"};
  const auto jobs = OfKind("Job", Made(options));
  const auto args = ArgsOf(PodOf(jobs.at("linear-worker")));
  EXPECT_THAT(args, Contains("echo $$(HOME) $$$$ $$$$(HOME)"));
}

TEST(KubernetesManifestsTest, RefusesWhatKubernetesWould) {
  const auto job = ParseJob(kJob, "job", {});
  for (const char* name : {"", "Upper", "under_score", "1st", "end-", "-a",
                           "a.b", "a23456789b123456789c123456789d123456789e"}) {
    KubernetesOptions options = Options();
    options.name = name;
    const auto made = KubernetesManifests(*job, options);
    EXPECT_EQ(made.ok(), std::string(name).size() == 40) << name;
    if (!made.ok()) {
      EXPECT_THAT(std::string(made.status().message()),
                  HasSubstr(absl::StrCat("got \"", name, "\"")));
    }
  }
  for (const char* storage :
       {"", "foo", "10Gib", "0", "-1", "1.2.3", "10 Gi"}) {
    KubernetesOptions options = Options();
    options.storage = storage;
    EXPECT_FALSE(KubernetesManifests(*job, options).ok()) << storage;
    options.storage = "1.5T";
    EXPECT_TRUE(KubernetesManifests(*job, options).ok());
  }
  for (const char* image : {"", "two words", "a\nb"}) {
    KubernetesOptions options = Options();
    options.image = image;
    EXPECT_FALSE(KubernetesManifests(*job, options).ok()) << image;
  }
  for (const char* storage_class :
       {"A B", "Fast", "a_b", "-a", "a-", ".a", "a.", "a..b", "a.-b"}) {
    KubernetesOptions options = Options();
    options.storage_class = storage_class;
    EXPECT_FALSE(KubernetesManifests(*job, options).ok()) << storage_class;
    options.storage_class = "1.nfs-client";
    EXPECT_TRUE(KubernetesManifests(*job, options).ok());
  }
  KubernetesOptions pods = Options();
  pods.holder = PodHolder::kPods;
  pods.gpu = true;
  EXPECT_FALSE(KubernetesManifests(*job, pods).ok());
}

std::vector<std::string> CommandOf(const Json& pod) {
  return pod["containers"][0]["command"];
}

TEST(KubernetesManifestsTest, TheProcessesOfAGroupFindEachOther) {
  const std::vector<std::string> group = {
      "cluster.workers=4", "worker.micro_batch=10",
      "worker.group={ pipeline_stages: 2 slots: 2 replicas: [ 2, 1 ] }",
      "model={ layer { dense { units: 3 } } layer { dense { units: 1 } } }"};
  const auto objects = Made(Options(), group);
  auto jobs = OfKind("Job", objects);
  for (const char* name :
       {"linear-worker", "linear-member-1", "linear-member-2"}) {
    EXPECT_EQ(jobs[name]["spec"]["completions"], 2) << name;
    EXPECT_EQ(PodOf(jobs[name])["volumes"][1]["secret"]["secretName"],
              "linear-worker-tls");
  }
  const std::string worker = "--worker=$(JOB_COMPLETION_INDEX)";
  EXPECT_THAT(CommandOf(PodOf(jobs["linear-worker"])),
              ElementsAre("worker", worker, "--listen=0.0.0.0:7000"));
  EXPECT_THAT(
      CommandOf(PodOf(jobs["linear-member-2"])),
      ElementsAre(
          "worker", worker, "--member=2",
          "--upstream=linear-worker-$(JOB_COMPLETION_INDEX).linear:7000",
          "--upstream=linear-member-1-$(JOB_COMPLETION_INDEX).linear:7000"));
  EXPECT_EQ(OfKind("PodDisruptionBudget",
                   objects)["linear-worker"]["spec"]["minAvailable"],
            3);

  KubernetesOptions bare = Options();
  bare.holder = PodHolder::kPods;
  auto pods = OfKind("Pod", Made(bare, group));  // Three shards.
  EXPECT_THAT(
      CommandOf(pods["linear-member-2-1"]["spec"]),
      ElementsAre("worker", "--worker=1", "--member=2",
                  "--upstream=127.0.0.1:7006", "--upstream=127.0.0.1:7007"));
  EXPECT_THAT(CommandOf(pods["linear-worker-1"]["spec"]),
              ElementsAre("worker", "--worker=1", "--listen=127.0.0.1:7006"));
}

}  // namespace
}  // namespace sluice
