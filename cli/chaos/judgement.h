#ifndef SLUICE_CLI_CHAOS_JUDGEMENT_H_
#define SLUICE_CLI_CHAOS_JUDGEMENT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "cli/chaos/director.h"
#include "cli/chaos/schedule.h"
#include "cli/report/run_result.h"
#include "ps_server/coordinator/log/ledger.h"

// What happened in a disturbed run, and whether Sluice kept its guarantees.
namespace sluice {

struct ChaosOutcome {
  uint64_t seed = 0;
  std::string policy = {};  // "K_SYNC"
  std::vector<Act> acts = {};
  std::vector<ActDone> done = {};  // As Director's.
  int unasked_ends = 0;            // As Director's.
  absl::Duration longest_wait = {};
  std::string rolled_back = {};  // As Director's.
  absl::Duration took =
      {};  // From the first process's start to the last one's end.
  // Why the run was given up or failed, with the name of the culprit. Empty: it
  // ended well, and the fields below are set.
  std::string failure = {};
  RunResult disturbed = {};
  Ledger ledger = {};
  RunResult undisturbed = {};
  double tolerance = 0;    // For the accuracy, or for a regression's loss.
  bool same_bits = false;  // Whether the policy promises equal bits.
};

// Whether one guarantee held.
struct Judgement {
  std::string name;  // "ledger"
  bool holds = false;
  std::string detail = {};  // What was found, and what was expected.
};

// All guarantees that could be checked, in a fixed order. Pure.
std::vector<Judgement> Judge(const ChaosOutcome& outcome);
bool AllHold(const std::vector<Judgement>& findings);

// As text: the acts by kind and part, what they cost, and every finding.
std::string DescribeChaos(const ChaosOutcome& outcome);
// The same and the schedule as one JSON object and a newline.
std::string ChaosJson(const ChaosOutcome& outcome);

}  // namespace sluice

#endif  // SLUICE_CLI_CHAOS_JUDGEMENT_H_
