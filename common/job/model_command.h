#ifndef SLUICE_COMMON_JOB_MODEL_COMMAND_H_
#define SLUICE_COMMON_JOB_MODEL_COMMAND_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/job/data_shape.h"
#include "common/process/command_line.h"
#include "proto/job.pb.h"

namespace CLI {
class App;
}  // namespace CLI

namespace sluice {

// Adds what follows "--" on a command line to `app`: the program that computes
// gradients, or measures versions, (model.external) and its arguments.
// `command` outlives `app`.
inline void AddModelCommand(CLI::App* app, std::vector<std::string>* command) {
  AddProgram(app,
             "after --: the model process of a job with model.external, and "
             "its arguments",
             command);
}

// kInvalidArgument: the job needs a command and there is none, or the other way
// round.
inline absl::Status CheckModelCommand(const proto::Job& job,
                                      const std::vector<std::string>& command) {
  const bool external = job.model().has_external();
  if (external == !command.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      external ? "model.external: expected -- COMMAND, the program that "
                 "computes gradients, at the end of the command line; got none"
               : "expected no -- COMMAND, because the job has no "
                 "model.external; got \"" +
                     command[0] + "\"");
}

// Whether the job's evaluator has a model process, too.
inline bool EvaluatorHasModelProcess(const proto::Job& job) {
  return job.model().has_external() && HasTestSplit(job.data());
}

// As CheckModelCommand, for the job's evaluator.
inline absl::Status CheckEvaluatorCommand(
    const proto::Job& job, const std::vector<std::string>& command) {
  const bool measures = EvaluatorHasModelProcess(job);
  if (measures == !command.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      measures ? "data.external.test_samples: expected -- COMMAND, the program "
                 "that measures versions, at the end of the command line; got "
                 "none"
               : "expected no -- COMMAND, because the job has no "
                 "data.external.test_samples; got \"" +
                     command[0] + "\"");
}

}  // namespace sluice

#endif  // SLUICE_COMMON_JOB_MODEL_COMMAND_H_
