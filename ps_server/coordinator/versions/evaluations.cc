// However many fall due while one runs, one waits: an evaluation that is
// overdue is made once, of the newest version, so a slow evaluator never falls
// behind by more than one.
//
// Every 1000 samples:
//
//   SamplesApplied(900, 1100)     due; Start(version 11)
//   SamplesApplied(1900, 2100)    due, but 11 is running
//   SamplesApplied(2900, 3100)    still due
//   Answer(11)                    the next Start takes the newest, say 31
//   GiveUp                        31 has no answer: one is due again
#include "ps_server/coordinator/versions/evaluations.h"

#include <cmath>
#include <utility>

#include "common/status_macros.h"

namespace sluice {

void Evaluations::SamplesApplied(int64_t before, int64_t after) {
  if (every_ <= 0) return;
  if (std::floor(after / every_) > std::floor(before / every_)) due_ = true;
}

void Evaluations::Start(Version version, bool final, absl::Time now) {
  SLUICE_CHECK(!running_.has_value());
  running_ = Running{version, final, now};
  due_ = false;
}

std::optional<Evaluations::Running> Evaluations::Answer(Version version) {
  if (!running_.has_value() || running_->version != version) {
    return std::nullopt;
  }
  if (running_->final) final_done_ = true;
  overruns_ = 0;
  losses_ = 0;
  return std::exchange(running_, std::nullopt);
}

std::optional<Evaluations::Running> Evaluations::GiveUp() {
  if (running_.has_value()) due_ = true;
  return std::exchange(running_, std::nullopt);
}

}  // namespace sluice
