#ifndef SLUICE_CLI_PLOT_COMMAND_H_
#define SLUICE_CLI_PLOT_COMMAND_H_

#include <CLI/CLI.hpp>

namespace sluice {

// `sluice plot RUN... [--out FOLDER]`: pictures of one or several runs. When
// the command line asks for it, parsing runs it and leaves its exit status in
// `exit_code`, which outlives `app`: 2 for what is no run, 1 where the
// pictures could not be drawn.
void AddPlotCommand(CLI::App& app, int* exit_code);

}  // namespace sluice

#endif  // SLUICE_CLI_PLOT_COMMAND_H_
