#ifndef SLUICE_CLI_CHAOS_COMMAND_H_
#define SLUICE_CLI_CHAOS_COMMAND_H_

#include <CLI/CLI.hpp>

namespace sluice {

// `sluice chaos JOB`: trains a job twice on this machine, the second time with
// its processes killed, stopped and cut off as a seed says, and checks that
// everything Sluice guarantees held. Sets `*exit_code` as RunChaos.
void AddChaosCommand(CLI::App& app, int* exit_code);

}  // namespace sluice

#endif  // SLUICE_CLI_CHAOS_COMMAND_H_
