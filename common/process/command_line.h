#ifndef SLUICE_COMMON_PROCESS_COMMAND_LINE_H_
#define SLUICE_COMMON_PROCESS_COMMAND_LINE_H_

#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
}  // namespace CLI

namespace sluice {

// Parses the command line into `app`, once. A code: the process is to exit with
// it (0 after --help, else kExitUsage), and why has been printed.
//
// An empty argument and an option without a value ("--run-dir=") are refused.
// CLI11 gives such an option the next argument as its value, and what an empty
// value means is nowhere said; both come from a variable that was not set.
// What follows "--" is a program's (AddProgram), and may be anything.
//
// Where a subcommand or a required option is missing and there is a word that
// is none, as "--jbo=J" for "--job=J", the message names that word.
std::optional<int> ParseCommandLine(int argc, char** argv, CLI::App* app);

// Adds what follows "--", a program and its arguments, word for word. `words`
// outlives `app`.
void AddProgram(CLI::App* app, const std::string& description,
                std::vector<std::string>* words);

}  // namespace sluice

#endif  // SLUICE_COMMON_PROCESS_COMMAND_LINE_H_
