// What does somebody who watches a run cost its lead?
//
// An answer is made anew for each scrape of Prometheus and, once a second, for
// each open page: from the coordinator's state to the text. Expected from
// arithmetic: it names each worker, so its cost grows at most in proportion to
// their number.

#include <cstdint>
#include <ctime>
#include <string>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "bench/report.h"
#include "common/status_macros.h"
#include "common/telemetry/counter_table.h"
#include "ps_server/coordinator/report/job_status.h"
#include "ps_server/live/live_pages.h"
#include "worker/worker_counters.h"

namespace sluice::bench {
namespace {

// A run in which every worker has said what it has counted.
JobState RunOf(int workers) {
  JobState state;
  state.phase = Phase::kRunning;
  state.staleness_histogram.assign(32, 1000);
  for (int i = 0; i < workers; ++i) {
    WorkerState& worker = state.workers.emplace_back();
    worker.id = WorkerId(i);
    worker.life = PeerLife::kAlive;
    worker.computing = i % 2 == 0;
    worker.gradients.applied = 123'456 + i;
    worker.process = absl::StrCat("worker-", i, ".example");
    PutCounters(kWorkerCounters, WorkerCounters(), &worker.counters);
    for (auto& [name, value] : worker.counters) value = 123'456'789 + i;
  }
  return state;
}

struct Made {
  double answers_per_second;
  double bytes;
};

// By CPU time, for at least `seconds`.
Made Make(const HttpPage& page, double seconds) {
  size_t bytes = 0;
  int64_t answers = 0;
  const std::clock_t start = std::clock();
  double passed = 0;
  for (; passed < seconds; ++answers) {
    const HttpAnswer answer = page([](const std::string&) { return ""; });
    SLUICE_CHECK(answer.code == 200);
    bytes = answer.body.size();
    passed = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  }
  return {answers / passed, static_cast<double>(bytes)};
}

void AddPage(const std::string& what, const std::string& path, bool tiny,
             Report* report) {
  double smallest = 0;
  for (const int workers : {10, 100, 1000}) {
    const JobState state = RunOf(workers);
    const auto pages =
        LivePages([&] { return StatusToProto(state, absl::UnixEpoch()); }, "");
    const Made made = Make(pages.at(path), tiny ? 0.01 : 1);
    if (workers == 10) smallest = made.answers_per_second;
    report->Add(
        {absl::StrCat(what, ", ", workers, " workers"),
         "answers/s",
         "10 workers, in proportion",
         smallest * 10 / workers,
         made.answers_per_second,
         {{"ms", 1000 / made.answers_per_second}, {"KiB", made.bytes / 1024}}});
  }
}

}  // namespace
}  // namespace sluice::bench

int main(int argc, char** argv) {
  CLI::App app("Cost of an answer of the lead's HTTP port");
  bool json = false, tiny = false;
  app.add_flag("--json", json, "Print the results as JSON");
  app.add_flag("--tiny", tiny, "Few answers, to see that it works");
  CLI11_PARSE(app, argc, argv);
  sluice::bench::Report report(
      "live_page", "What does somebody who watches a run cost its lead?");
  sluice::bench::AddPage("scrape", "/metrics", tiny, &report);
  sluice::bench::AddPage("page", "/api/state", tiny, &report);
  report.Print(json);
}
