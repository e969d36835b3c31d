// How many events a second does the simulator handle, without computing
// gradients?
//
// Expected from arithmetic: an event is taken from and added to a queue ordered
// by time, and some events call the coordinator. So the cost grows at most with
// the logarithm of the number of workers: the rate with P workers is at least
// the rate with 10 times log 10 / log P, and never below a million per second.
// 10,000 workers need about 10 events each for an update of K_SYNC, so 1,000
// updates take less than a minute. All seconds are CPU seconds of this process.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <ctime>
#include <string>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "bench/report.h"
#include "common/job/delay_model.h"
#include "common/job/resolved_job.h"
#include "common/rpc/malloc_tuning.h"
#include "common/status_macros.h"
#include "sim/cluster_simulation.h"
#include "sim/network.h"

namespace sluice::bench {
namespace {

// CPU time of this process, which other processes on the machine do not affect.
double CpuSeconds() {
  return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
}

ClusterSimulation::Options OptionsOf(const std::string& policy, int workers) {
  const auto job = ParseJob(
      absl::StrCat("cluster { workers: ", workers, " shards: 2 }",
                   "sync { policy: ", policy, " k: ", workers / 2, " }",
                   R"pb(
                     data {
                       linear_regression { features: 64 }
                       batch_size: 32
                     }
                     model { layer { dense { units: 1 } } }
                     optimizer { learning_rate: 0.1 }
                     stop { updates: 1000000000 }
                     delays { compute { exponential { mean_ms: 50 } } }
                   )pb"),
      "simulator", {});
  SLUICE_CHECK(job.ok());
  ClusterSimulation::Options options;
  options.coordinator.job = job->job;
  options.coordinator.train_samples = job->data.train_samples;
  options.coordinator.job.mutable_evaluation()->set_enabled(false);
  options.compute = *ComputeDelay::Create(job->job);
  options.network = *Network::Create(job->job);
  options.pull_bytes = options.push_bytes = {128, 132};
  return options;
}

struct Rate {
  double events_per_second;
  double seconds;
};

Rate Simulate(const std::string& policy, int workers, int64_t updates) {
  ClusterSimulation simulation(OptionsOf(policy, workers));
  const auto run = [&](size_t until) {
    SLUICE_CHECK(
        simulation
            .Run([&] { return simulation.window().commits.size() >= until; })
            .ok());
  };
  run(1);  // All workers have joined.
  const int64_t events = simulation.window().events;
  const double start = CpuSeconds();
  run(1 + updates);
  const double seconds = CpuSeconds() - start;
  return {(simulation.window().events - events) / seconds, seconds};
}

void AddGrowth(bool tiny, Report* report) {
  for (const char* policy : {"K_SYNC", "K_BATCH_ASYNC", "ASYNC"}) {
    double smallest = 0;
    for (const int workers : {10, 100, 1000, 10000}) {
      if (tiny && workers > 100) break;
      // About the same number of events for any number of workers.
      const bool one = std::string(policy) == "ASYNC";
      const int64_t updates =
          (tiny ? 100'000 : 4'000'000) / 10 / (one ? 1 : workers);
      const Rate rate =
          Simulate(policy, workers, std::max<int64_t>(1, updates));
      if (workers == 10) smallest = rate.events_per_second;
      report->Add({absl::StrCat(policy, ", ", workers, " workers"),
                   "events/s",
                   "10 workers, logarithm",
                   smallest * std::log(10.0) / std::log(workers),
                   rate.events_per_second,
                   {{"of_a_million", rate.events_per_second / 1e6}}});
    }
  }
}

void AddLarge(Report* report) {
  const Rate rate = Simulate("K_SYNC", 10000, 1000);
  report->Add({"K_SYNC, 10000 workers, 1000 updates",
               "runs/min",
               "one a minute",
               1,
               60 / rate.seconds,
               {{"seconds", rate.seconds}}});
}

}  // namespace
}  // namespace sluice::bench

int main(int argc, char** argv) {
  sluice::TuneMallocForChunks();  // As in the tool.
  CLI::App app("Events of the simulator per second");
  bool json = false, tiny = false;
  app.add_flag("--json", json, "Print the results as JSON");
  app.add_flag("--tiny", tiny, "Few events, to see that it works");
  CLI11_PARSE(app, argc, argv);
  sluice::bench::Report report(
      "simulator",
      "How many events a second does the simulator handle, timing only?");
  sluice::bench::AddGrowth(tiny, &report);
  if (!tiny) sluice::bench::AddLarge(&report);
  report.Print(json);
}
