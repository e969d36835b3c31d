#ifndef SLUICE_CLI_CHECKPOINT_COMMANDS_H_
#define SLUICE_CLI_CHECKPOINT_COMMANDS_H_

#include <CLI/CLI.hpp>

namespace sluice {

// `sluice inspect CHECKPOINT [--json]` and `sluice export CHECKPOINT FILE`;
// the process's exit status goes to `*exit_code`.
void AddCheckpointCommands(CLI::App &app, int *exit_code);

} // namespace sluice

#endif // SLUICE_CLI_CHECKPOINT_COMMANDS_H_
