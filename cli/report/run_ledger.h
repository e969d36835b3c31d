#ifndef SLUICE_CLI_REPORT_RUN_LEDGER_H_
#define SLUICE_CLI_REPORT_RUN_LEDGER_H_

#include <string>

#include "absl/status/statusor.h"
#include "ps_server/coordinator/log/ledger.h"

namespace sluice {

// The ledger of the run in `run_dir`, over, failed or going on still: that of
// its logs, what its job and summary say being expected. Where they disagree
// with the logs is among its errors.
//
// Errors as ReadLedger's, and as LoadJob's of the run's job.textproto.
absl::StatusOr<Ledger> ReadRunLedger(const std::string& run_dir);

// For a person, several lines: a table of generations, what is in the weights,
// the errors.
std::string DescribeLedger(const Ledger& ledger);

// One JSON object, with a line's end.
std::string LedgerJson(const Ledger& ledger);

}  // namespace sluice

#endif  // SLUICE_CLI_REPORT_RUN_LEDGER_H_
