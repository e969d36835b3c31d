#include "ps_server/coordinator/core/evaluations.h"

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
  return std::exchange(running_, std::nullopt);
}

std::optional<Evaluations::Running> Evaluations::GiveUp() {
  if (running_.has_value()) due_ = true;
  return std::exchange(running_, std::nullopt);
}

}  // namespace sluice
