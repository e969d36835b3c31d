#ifndef SLUICE_CLI_REPLAY_COMMAND_H_
#define SLUICE_CLI_REPLAY_COMMAND_H_

#include <CLI/CLI.hpp>

namespace sluice {

// `sluice replay RUN`: recomputes a run from its commit log. Exit code 1: it
// departs from the record, or cannot be recomputed.
void AddReplayCommand(CLI::App& app, int* exit_code);

}  // namespace sluice

#endif  // SLUICE_CLI_REPLAY_COMMAND_H_
