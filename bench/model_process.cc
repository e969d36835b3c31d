// What does a task cost in the socket and the shared memory of a model process?
//
// Expected from arithmetic: a task is a TASK one way and FINAL twice and RESULT
// the other, so four packets, and each side wakes up for the other once. A
// packet takes about 2 us and a wake-up about 10 us on a machine at rest, so 30
// us; Python adds the work of its interpreter, about as much again. The
// gradient is that of one sample and four weights, which costs nothing beside
// it, and nothing is copied, so it is the same for any number of weights.
// Expected is what is allowed, 0.1 ms.

#include "worker/external/model_process.h"

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "bench/report.h"
#include "common/clock.h"

namespace sluice::bench {
namespace {

constexpr int64_t kFloats = 4;
constexpr double kAllowedSeconds = 1e-4;

// The seconds of each task, in order of size.
absl::StatusOr<std::vector<double>> Measure(const std::string& program,
                                            int tasks) {
  ModelProcess::Options options;
  options.command = {program};
  options.description = {.job = "bench",
                         .batch_size = 1,
                         .train_samples = 64,
                         .parameters = kFloats,
                         .tensors = {{.name = "w", .shape = {kFloats}}}};
  auto started = ModelProcess::Start(options);
  if (!started.ok()) return started.status();
  ModelProcess& process = **started;
  GradientInPlace gradient(process.gradient());
  const CancelToken cancel;
  std::vector<double> seconds;
  const int warm_up = tasks / 10 + 1;
  for (int i = 0; i < tasks + warm_up; ++i) {
    const absl::Time start = Clock::Real()->Now();
    const auto result =
        process.Compute({.batches = {BatchId(i), {1}, {i % 64}}},
                        process.weights(i % 2), gradient, cancel);
    if (!result.ok()) return result.status();
    if (i < warm_up) continue;
    seconds.push_back(absl::ToDoubleSeconds(Clock::Real()->Now() - start));
  }
  std::sort(seconds.begin(), seconds.end());
  return seconds;
}

// `folder` holds the programs.
int Run(const std::string& folder, int tasks, bool json) {
  Report report("model_process",
                "What does a task cost in the socket and shared memory?");
  for (const auto& [what, program] :
       {std::pair{"C++", "linear_model"}, {"Python", "linear_model_py"}}) {
    const auto seconds = Measure(absl::StrCat(folder, program), tasks);
    if (!seconds.ok()) {
      std::fprintf(stderr, "model_process: %s\n",
                   std::string(seconds.status().message()).c_str());
      return 1;
    }
    const auto at = [&](double share) {
      return (*seconds)[static_cast<size_t>(share * (seconds->size() - 1))];
    };
    report.Add({.what = what,
                .unit = "tasks/s",
                .expected_from = "0.1 ms a task",
                .expected = 1 / kAllowedSeconds,
                .measured = 1 / at(0.5),
                .more = {{"p50_us", at(0.5) * 1e6},
                         {"p90_us", at(0.9) * 1e6},
                         {"p99_us", at(0.99) * 1e6}}});
  }
  report.Note(absl::StrCat(tasks, " tasks each; the median is measured"));
  report.Print(json);
  return 0;
}

// The folder of the model processes, beside that of this program.
std::string ProgramsBeside(absl::string_view program) {
  absl::ConsumeSuffix(&program, "bench/model_process");
  return absl::StrCat(program, "worker/external/testing/");
}

}  // namespace
}  // namespace sluice::bench

int main(int argc, char** argv) {
  CLI::App app("What a task costs between a worker and its model process");
  int tasks = 20000;
  bool json = false, tiny = false;
  app.add_option("--tasks", tasks, "Tasks; the median is reported")
      ->check(CLI::PositiveNumber);
  app.add_flag("--json", json, "Print the results as JSON");
  app.add_flag("--tiny", tiny, "Few, for tests");
  CLI11_PARSE(app, argc, argv);
  if (tiny) tasks = 50;
  return sluice::bench::Run(sluice::bench::ProgramsBeside(argv[0]), tasks,
                            json);
}
