#ifndef SLUICE_CLI_TRAIN_COMMAND_H_
#define SLUICE_CLI_TRAIN_COMMAND_H_

#include <CLI/CLI.hpp>

namespace sluice {

// `sluice train JOB`: trains on this machine. When the command line asks for
// it, parsing runs it and leaves its exit status in `exit_code`, which
// outlives `app`.
void AddTrainCommand(CLI::App& app, int* exit_code);

}  // namespace sluice

#endif  // SLUICE_CLI_TRAIN_COMMAND_H_
