#ifndef SLUICE_CLI_ADVISE_COMMAND_H_
#define SLUICE_CLI_ADVISE_COMMAND_H_

#include <CLI/CLI.hpp>

namespace sluice {

// `sluice advise JOB --workers N --target-accuracy A`: which policy, which K
// and which rate reach the target first on the job's cluster, in virtual time.
// When the command line asks for it, parsing runs it and leaves its exit status
// in `exit_code`, which outlives `app`: 1 when no choice reached the target.
void AddAdviseCommand(CLI::App& app, int* exit_code);

}  // namespace sluice

#endif  // SLUICE_CLI_ADVISE_COMMAND_H_
