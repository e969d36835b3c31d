#ifndef SLUICE_CLI_CHAOS_CHAOS_RUN_H_
#define SLUICE_CLI_CHAOS_CHAOS_RUN_H_

#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/clock.h"
#include "common/resolved_job.h"

namespace sluice {

struct ChaosOptions {
  uint64_t seed = 1;
  int kills = 6;
  int stops = 2;
  // Absent: as many as stops where the system lets it, else none.
  std::optional<int> cuts;
  int storage_faults = 0;  // Times that a server's run folder fails.
  bool servers = true;     // Else only workers and the evaluator are disturbed.
  double tolerance = 0.02;
  absl::Duration patience = absl::Minutes(1);  // As DirectorOptions'.
  // Holds `undisturbed` and `disturbed`, the runs' folders, and chaos.json.
  // Empty: runs/NAME-chaos-N.
  std::string run_dir;
  // Folder of an undisturbed run of the job; empty: it is made first.
  std::string undisturbed;
  std::string bin_dir;  // As TrainOptions'.
  bool json = false;    // One JSON object at the end, and nothing else.
};

// Updates that a run of `job` makes, from its epochs or updates. Where K
// varies, the fewest. kInvalidArgument: another stop condition may end it.
absl::StatusOr<int64_t> UpdatesOf(const ResolvedJob& job);

// How many updates between checkpoints let `acts` fit into `updates`.
int64_t CheckpointEveryFor(int64_t updates, int acts);

// Trains `job`, undisturbed and then disturbed as the seed says, and judges
// whether everything held. Result and progress go to `out`, with `json` the
// progress to `err`; what went wrong to `err`. Returns the exit status: 0
// everything held, 1 something did not, 2 the job cannot be disturbed so, 130
// the user ended it. REQUIRES: no other thread has been started.
int RunChaos(const ResolvedJob& job, const ChaosOptions& options, Clock* clock,
             std::ostream& out, std::ostream& err);

}  // namespace sluice

#endif  // SLUICE_CLI_CHAOS_CHAOS_RUN_H_
