#include <CLI/CLI.hpp>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cli/commands.h"
#include "cli/launch/progress.h"
#include "cli/report/run_result.h"
#include "cli/run_folder.h"
#include "cli/slow_work.h"
#include "common/formats/safetensors.h"
#include "common/job/resolved_job.h"
#include "common/status_macros.h"
#include "common/telemetry/json_text.h"
#include "kernels/numerics.h"
#include "nlohmann/json.hpp"
#include "worker/compute/measure.h"
#include "worker/data/data_source.h"
#include "worker/model/make_device.h"
#include "worker/model/model.h"
#include "worker/reference/weights_digest.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

// The path of a file of the run. kNotFound: the message adds `absence`, which
// says what it means that the file is missing.
absl::StatusOr<std::string> FileOf(const std::string& run_dir,
                                   const std::string& name,
                                   const std::string& absence) {
  SLUICE_RETURN_IF_ERROR(CheckMayRead(run_dir));
  std::error_code error;
  if (!fs::is_directory(run_dir, error)) {
    return absl::NotFoundError(
        absl::StrCat(run_dir,
                     ": no such folder, expected the run folder of a finished "
                     "`sluice train`"));
  }
  const std::string path = absl::StrCat(run_dir, "/", name);
  if (fs::exists(path, error)) return path;
  return absl::NotFoundError(
      absl::StrCat(run_dir, ": has no ", name, ": ", absence));
}

struct EvaluatedRun {
  Measurement test;
  std::string weights_sha256;
};

// Measures RUN_DIR/weights.safetensors on the test split of
// RUN_DIR/job.textproto, with the job's device, as the run's evaluator does:
// the same bits. The job's data files are looked for from the working folder,
// as the daemons did. Errors name the file and what was expected.
absl::StatusOr<EvaluatedRun> EvaluateRun(const std::string& run_dir) {
  SLUICE_ASSIGN_OR_RETURN(const std::string job_path,
                          FileOf(run_dir, "job.textproto",
                                 "expected the run folder of a finished "
                                 "`sluice train`, which has one"));
  SLUICE_ASSIGN_OR_RETURN(
      const std::string weights_path,
      FileOf(run_dir, "weights.safetensors",
             "expected the final weights; the run has not finished, failed, or "
             "had no evaluator (evaluation.enabled)"));
  SLUICE_ASSIGN_OR_RETURN(ResolvedJob job, LoadJob(job_path, {}));
  job.job.mutable_worker()->clear_gpus();  // This machine may have others.
  if (job.data.test_samples == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(job_path, ": data names no test split to evaluate on"));
  }
  SLUICE_ASSIGN_OR_RETURN(const std::vector<float> weights,
                          ReadSafetensors(weights_path, job.layout));
  SLUICE_ASSIGN_OR_RETURN(const auto device, MakeDevice(job.job.worker(), 0));
  const int batch_size = job.job.evaluation().batch_size();
  SLUICE_ASSIGN_OR_RETURN(const auto model,
                          Model::Create(job, batch_size, device.get()));
  SLUICE_ASSIGN_OR_RETURN(
      const auto test,
      OpenDataSource(job.job.data(), Split::kTest, job.job.seed()));
  kernels::SetNumericMode();
  device->EnterThread();
  EvaluatedRun run;
  SLUICE_ASSIGN_OR_RETURN(
      run.test, Measure(*test, batch_size, job.data.classification, weights,
                        CancelToken(), model.get()));
  run.weights_sha256 = WeightsSha256(weights);
  return run;
}

// For a person, several lines.
std::string DescribeEvaluation(const EvaluatedRun& run) {
  std::string text;
  if (run.test.accuracy.has_value()) {
    absl::StrAppendFormat(&text, "test accuracy %.4f\n", *run.test.accuracy);
  }
  absl::StrAppendFormat(&text, "test loss %s\n%d samples, weights %s\n",
                        FormatLoss(run.test.loss), run.test.samples,
                        run.weights_sha256);
  return text;
}

// One JSON object with the names of summary.json; accuracy is null without
// labels.
std::string EvaluationJson(const EvaluatedRun& run) {
  nlohmann::ordered_json json;
  json["test_accuracy"] = nullptr;
  if (run.test.accuracy.has_value()) {
    json["test_accuracy"] = *run.test.accuracy;
  }
  json["test_loss"] = run.test.loss;
  json["test_samples"] = run.test.samples;
  json["weights_sha256"] = run.weights_sha256;
  return JsonText(json, 2) + "\n";
}

struct EvalFlags {
  std::string run;
  bool json = false;
};

int Eval(const EvalFlags& flags) {
  const SlowWork slow("eval");
  const absl::StatusOr<EvaluatedRun> run = EvaluateRun(flags.run);
  if (!run.ok()) {
    std::cerr << run.status().message() << "\n";
    return 1;
  }
  std::cout << (flags.json ? EvaluationJson(*run) : DescribeEvaluation(*run));
  const absl::StatusOr<RunResult> result = ReadRunResult(flags.run);
  if (absl::IsDataLoss(result.status())) {
    std::cerr << result.status().message()
              << "; the weights are not compared with those that the run ended "
                 "with\n";
    return 1;
  }
  if (!result.ok() || result->weights_sha256.empty() ||
      result->weights_sha256 == run->weights_sha256) {
    return 0;
  }
  std::cerr << flags.run << "/weights.safetensors: has other weights than the "
            << "run ended with, " << result->weights_sha256
            << " (summary.json)\n";
  return 1;
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
