#ifndef SLUICE_PS_SERVER_COORDINATOR_LOG_GOODPUT_H_
#define SLUICE_PS_SERVER_COORDINATOR_LOG_GOODPUT_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/ids.h"
#include "ps_server/coordinator/log/commit_log_file.h"
#include "ps_server/coordinator/log/generations.h"
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

// Measures one generation's log after the other, ascending. What a later
// generation did not go on from is lost, however it had ended, as in the ledger
// (ledger.h). Pure.
class GoodputMeter {
 public:
  // `headers`: of all logs.
  explicit GoodputMeter(const std::vector<proto::LogHeader>& headers)
      : kept_(KeptVersions(headers)) {}

  void Begin(const proto::LogHeader& header);
  void Read(const proto::LogRecord& record);
  void End(const std::optional<TornTail>& torn);
  // Ends the measurement.
  Goodput Measured();

 private:
  const std::vector<std::optional<Version>> kept_;
  WorkerTime time_;
  Goodput goodput_;
};

// Of the run in `run_dir`, which may be over, have failed, been killed or still
// go on; holds one record at a time. kNotFound: there is no such folder, or it
// has no commit log. Errors of a log as ReadGeneration's.
absl::StatusOr<Goodput> ReadRunGoodput(const std::string& run_dir);

}  // namespace sluice

#endif  // SLUICE_PS_SERVER_COORDINATOR_LOG_GOODPUT_H_
