#include "cli/eval_command.h"

#include <iostream>
#include <memory>
#include <string>

#include "cli/evaluate_run.h"

namespace sluice {
namespace {

struct EvalFlags {
  std::string run;
  bool json = false;
};

int Eval(const EvalFlags& flags) {
  const absl::StatusOr<EvaluatedRun> run = EvaluateRun(flags.run);
  if (!run.ok()) {
    std::cerr << run.status().message() << "\n";
    return 1;
  }
  std::cout << (flags.json ? EvaluationJson(*run) : DescribeEvaluation(*run));
  return 0;
}

}  // namespace

void AddEvalCommand(CLI::App& app, int* exit_code) {
  CLI::App* command = app.add_subcommand(
      "eval", "Measure a run's final weights on its test split");
  auto flags = std::make_shared<EvalFlags>();
  command->add_option("run", flags->run, "Run folder")->required();
  command->add_flag("--json", flags->json, "Print one JSON object");
  command->callback([flags, exit_code] { *exit_code = Eval(*flags); });
}

}  // namespace sluice
