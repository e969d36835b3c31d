#ifndef SLUICE_CLI_CHECK_COMMAND_H_
#define SLUICE_CLI_CHECK_COMMAND_H_

#include <CLI/CLI.hpp>

namespace sluice {

// `sluice check JOB [--json]`: prints the resolved job and what follows from
// it. When the command line asks for it, parsing runs it and leaves its exit
// status in `exit_code`, which outlives `app`.
void AddCheckCommand(CLI::App& app, int* exit_code);

}  // namespace sluice

#endif  // SLUICE_CLI_CHECK_COMMAND_H_
