#ifndef SLUICE_CLI_REPORT_GOODPUT_H_
#define SLUICE_CLI_REPORT_GOODPUT_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/ids.h"
#include "ps_server/coordinator/log/commit_log_file.h"
#include "ps_server/coordinator/log/worker_time.h"

// Goodput: the share of the workers' time whose samples are in the weights.
namespace sluice {

struct Goodput {
  Version version;                           // The newest.
  int64_t generations = 0;                   // That began.
  std::map<int64_t, WorkerSeconds> workers;  // Over all generations.
  // Logs that end with what is no whole record.
  std::vector<TornTail> torn;

  WorkerSeconds Total() const;
  // 0 to 1; 0 where no worker has had a task.
  double share() const;
};

// Of `logs`, one of each generation, ascending. What a later generation did not
// go on from is lost, however it had ended, as in the ledger (ledger.h). Pure.
Goodput MeasureGoodput(const std::vector<CommitLog>& logs);

// Of the run in `run_dir`, which may be over, have failed, been killed or still
// go on. kNotFound: there is no such folder, or it has no commit log. Errors of
// a log as ReadGeneration's.
absl::StatusOr<Goodput> ReadRunGoodput(const std::string& run_dir);

// For a person: a table of workers, and the sum in a sentence.
std::string DescribeGoodput(const Goodput& goodput);

// "goodput 83.4% (idle 12.0%, cancelled 4.6%)": the largest cause first, those
// of less than 0.05% left out. Empty where no worker has had a task.
std::string GoodputInShort(const Goodput& goodput);

// One JSON object and a newline.
std::string GoodputJson(const Goodput& goodput);

}  // namespace sluice

#endif  // SLUICE_CLI_REPORT_GOODPUT_H_
