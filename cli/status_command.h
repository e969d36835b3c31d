#ifndef SLUICE_CLI_STATUS_COMMAND_H_
#define SLUICE_CLI_STATUS_COMMAND_H_

#include <CLI/CLI.hpp>

namespace sluice {

// `sluice status RUN|ADDRESS [--json] [--watch]`: asks the coordinator of a
// run how it stands, or prints the summary of a run that is over. When the
// command line asks for it, parsing runs it and leaves its exit status in
// `exit_code`, which outlives `app`.
void AddStatusCommand(CLI::App& app, int* exit_code);

}  // namespace sluice

#endif  // SLUICE_CLI_STATUS_COMMAND_H_
