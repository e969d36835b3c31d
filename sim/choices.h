#ifndef SLUICE_SIM_CHOICES_H_
#define SLUICE_SIM_CHOICES_H_

#include <string>
#include <vector>

#include "proto/job.pb.h"

namespace sluice {

// One answer to "which policy, and which K?".
struct Choice {
  std::string name;  // "K_SYNC, K 8"; unique among the choices.
  proto::Sync sync;  // Only what is not the default.
};

// What to choose from; empty: all policies, and for K a quarter, half and
// three quarters of the workers (all of them for the K_BATCH policies).
struct ChoiceRange {
  std::vector<proto::Policy> policies;
  std::vector<int> ks;
};

// The choices for `job`, whose defaults are filled in: each policy of the
// range with each K, and with the adaptive K from an eighth of the workers on
// where the range names no K; all else in `sync` as in the job. A choice that
// is another one by its nature (K_SYNC with K = P is SYNC) is left out. The
// job's own comes first, where its policy is in the range, and says so.
std::vector<Choice> ChoicesFor(const proto::Job& job, const ChoiceRange& range);

// `job.sync` without the fields that would be filled in alike if they were
// left out. `job`: with its defaults filled in.
proto::Sync ShortestSync(const proto::Job& job);

// A sync block as a job file has it:
//
//   sync {
//     policy: K_SYNC
//     k: 8
//   }
std::string FormatSyncBlock(const proto::Sync& sync);

// The same on one line, without its name: "policy: K_SYNC k: 8".
std::string FormatSyncLine(const proto::Sync& sync);

}  // namespace sluice

#endif  // SLUICE_SIM_CHOICES_H_
