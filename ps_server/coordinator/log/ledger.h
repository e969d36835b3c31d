#ifndef SLUICE_PS_SERVER_COORDINATOR_LOG_LEDGER_H_
#define SLUICE_PS_SERVER_COORDINATOR_LOG_LEDGER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/ids.h"
#include "ps_server/coordinator/log/commit_log_file.h"

// What the commit logs of all generations of a run say became of every task,
// and whether every gradient and every mini-batch was counted once.
namespace sluice {

// How the tasks ended that one generation issued. What a later generation did
// not go on from is lost, however it had ended.
struct GenerationLedger {
  Generation generation = {};
  Generation parent = {};  // That it goes on from; 0: none.
  Version restored = {};   // Where it began.
  Version decided = {};    // The newest that it made.
  // Up to where the newest generation rests on it: `decided` where it is the
  // newest, `restored` where nothing of it was kept.
  Version kept = {};
  int64_t tasks = 0;  // Issued; the sum of the following.
  int64_t applied = 0;
  int64_t cancelled = 0;
  int64_t dropped = 0;
  int64_t rejected = 0;
  int64_t lost = 0;

  int64_t updates_lost() const { return decided - kept; }
};

struct Ledger {
  std::vector<GenerationLedger> generations;  // Ascending.
  // Generations whose log has no header: they were taken, and their coordinator
  // died before it began.
  std::vector<Generation> never_began;
  // Logs that end with what is no whole record.
  std::vector<TornTail> torn;
  // Of the lineage of the newest generation.
  Version version;
  int64_t mini_batches = 0;  // Applied.
  int64_t samples = 0;       // Applied.
  // What is not as it must be, one sentence each; at most kMostErrors, the last
  // of which says how many more there are.
  std::vector<std::string> errors;

  bool exact() const { return errors.empty(); }
  // Over all generations; its `generation` is the newest.
  GenerationLedger Total() const;
};

// What is known of the run besides its logs.
struct LedgerExpectation {
  // Whether the run reached its end, so that the newest generation has no open
  // task.
  bool ended = false;
  // Mini-batches of the whole run, where it went through all of them. How many
  // of them were left out for good, in no update (BAD_GRADIENT's SKIP).
  std::optional<int64_t> mini_batches = {};
  int64_t left_out = 0;
};

constexpr int kMostErrors = 20;

// Balances the books of `logs`, one of each generation, ascending. Checks that
// in each generation
// - every task ends at most once, after it was issued: is applied, cancelled,
//   dropped, rejected or lost; one that does not is lost with its generation,
//   and an error in the newest of a run that `ended`;
// - versions follow one another from the one restored, which the parent made;
// - no mini-batch has two live tasks, or is in two updates of its lineage;
// and that in the newest one's lineage every mini-batch is, if they are known.
// Pure.
Ledger BalanceLogs(const std::vector<CommitLog>& logs,
                   const LedgerExpectation& expected);

// The same of the logs in a run's folder. kNotFound: there is none. kDataLoss:
// one is damaged; names file and position.
absl::StatusOr<Ledger> ReadLedger(const std::string& run_dir,
                                  const LedgerExpectation& expected);

}  // namespace sluice

#endif  // SLUICE_PS_SERVER_COORDINATOR_LOG_LEDGER_H_
