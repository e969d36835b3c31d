#ifndef SLUICE_CLI_LEDGER_COMMAND_H_
#define SLUICE_CLI_LEDGER_COMMAND_H_

#include <CLI/CLI.hpp>

namespace sluice {

// `sluice ledger RUN`: what became of every gradient of a run, over all its
// generations, and whether each was counted once. Sets `*exit_code` to 0 when
// the books balance, to 1 when they do not or cannot be read.
void AddLedgerCommand(CLI::App& app, int* exit_code);

}  // namespace sluice

#endif  // SLUICE_CLI_LEDGER_COMMAND_H_
