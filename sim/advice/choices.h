#ifndef SLUICE_SIM_ADVICE_CHOICES_H_
#define SLUICE_SIM_ADVICE_CHOICES_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "proto/job.pb.h"

namespace sluice {

// One combination of a policy and its K.
struct Choice {
  std::string name;  // "K_SYNC, K 8"; unique among the choices.
  proto::Sync sync;  // Only the fields that differ from their defaults.
};

// The policies and Ks to choose from. Empty means all policies, and for K a
// quarter, a half and three quarters of the workers (for the K_BATCH policies
// all workers instead of three quarters).
struct ChoiceRange {
  std::vector<proto::Policy> policies;
  std::vector<int> ks;
};

// The choices for `job`, whose defaults are filled in: each policy of the range
// with each K, and also with an adaptive K that starts at an eighth of the
// workers if the range names no K. All other fields of `sync` are the job's. A
// choice that makes the same updates as another one (K_SYNC with K = P is SYNC)
// is left out. The job's own choice comes first and is marked, if its policy is
// in the range; then it is the other one that is left out.
std::vector<Choice> ChoicesFor(const proto::Job& job, const ChoiceRange& range);

// kInvalidArgument: a K of the range is one that no policy of it is tried with;
// names it, and the Ks that each is.
absl::Status CheckKs(const proto::Job& job, const ChoiceRange& range);

// Returns `job.sync` without the fields that ResolveDefaults would fill in with
// the same value. `job` has its defaults filled in.
proto::Sync ShortestSync(const proto::Job& job);

// Formats a sync block as in a job file:
//
//   sync {
//     policy: K_SYNC
//     k: 8
//   }
std::string FormatSyncBlock(const proto::Sync& sync);

// The same on one line, without the braces: "policy: K_SYNC k: 8".
std::string FormatSyncLine(const proto::Sync& sync);

}  // namespace sluice

#endif  // SLUICE_SIM_ADVICE_CHOICES_H_
