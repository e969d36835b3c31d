#ifndef SLUICE_CLI_EVAL_COMMAND_H_
#define SLUICE_CLI_EVAL_COMMAND_H_

#include <CLI/CLI.hpp>

namespace sluice {

// `sluice eval RUN [--json]`: measures a run's final weights on its test split
// again. When the command line asks for it, parsing runs it and leaves its
// exit status in `exit_code`, which outlives `app`: 1 where the run cannot be
// evaluated.
void AddEvalCommand(CLI::App& app, int* exit_code);

}  // namespace sluice

#endif  // SLUICE_CLI_EVAL_COMMAND_H_
