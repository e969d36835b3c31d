#ifndef SLUICE_CLI_REPORT_RUN_LEDGER_H_
#define SLUICE_CLI_REPORT_RUN_LEDGER_H_

#include <string>

#include "absl/status/statusor.h"
#include "ps_server/coordinator/log/ledger.h"

namespace sluice {

// The ledger of the run in `run_dir`, which may be over, have failed or still
// go on. It is made from the commit logs and compared with what the run's job
// and summary say; each difference is one of its errors.
//
// Errors as ReadLedger's, and as LoadJob's of the run's job.textproto.
absl::StatusOr<Ledger> ReadRunLedger(const std::string& run_dir);

// For a person, several lines: a table of generations, what is in the weights,
// the errors.
std::string DescribeLedger(const Ledger& ledger);

// One JSON object and a newline.
std::string LedgerJson(const Ledger& ledger);

}  // namespace sluice

#endif  // SLUICE_CLI_REPORT_RUN_LEDGER_H_
