#ifndef SLUICE_COMMON_COMMAND_LINE_H_
#define SLUICE_COMMON_COMMAND_LINE_H_

#include <CLI/CLI.hpp>
#include <optional>

namespace sluice {

// Parses the command line into `app`, once. A code: the process is to exit with
// it (0 after --help, else kExitUsage), and why has been printed.
//
// An empty argument and an option without a value ("--run-dir=") are refused.
// CLI11 gives such an option the next argument as its value, and what an empty
// value means is nowhere said; both come from a variable that was not set.
std::optional<int> ParseCommandLine(int argc, char** argv, CLI::App* app);

}  // namespace sluice

#endif  // SLUICE_COMMON_COMMAND_LINE_H_
