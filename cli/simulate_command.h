#ifndef SLUICE_CLI_SIMULATE_COMMAND_H_
#define SLUICE_CLI_SIMULATE_COMMAND_H_

#include <CLI/CLI.hpp>

namespace sluice {

// `sluice simulate JOB --timing-only [--json]`: the job's cluster in virtual
// time. When the command line asks for it, parsing runs it and leaves its exit
// status in `exit_code`, which outlives `app`.
void AddSimulateCommand(CLI::App& app, int* exit_code);

}  // namespace sluice

#endif  // SLUICE_CLI_SIMULATE_COMMAND_H_
