#ifndef SLUICE_CLI_LAUNCH_DEATH_REPORTS_H_
#define SLUICE_CLI_LAUNCH_DEATH_REPORTS_H_

#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "cli/launch/supervision.h"
#include "proto/coordinator.pb.h"

namespace sluice {

// The deaths of children that the coordinator has not yet acknowledged. Each is
// reported again until the coordinator answers, or kTryFor is over. Pure: holds
// no process and no clock.
//
// Not thread-safe: call from one thread.
class DeathReports {
 public:
  // By then the coordinator has noticed the death itself, since a lease of the
  // default length is over. A longer lease just takes longer.
  static constexpr absl::Duration kTryFor = absl::Seconds(30);

  // Ignores a child that ended well, since it has told the coordinator itself,
  // and the lead: when the lead is dead, there is no coordinator to tell.
  void Add(const PartEnd& end, absl::Time now);
  // The reports to send now, oldest first.
  std::vector<proto::DeathReport> Due(absl::Time now);
  // The coordinator has answered this report, with whatever status.
  void Answered(const proto::DeathReport& report);

 private:
  std::vector<std::pair<absl::Time, proto::DeathReport>> pending_;
};

}  // namespace sluice

#endif  // SLUICE_CLI_LAUNCH_DEATH_REPORTS_H_
