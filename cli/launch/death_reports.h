#ifndef SLUICE_CLI_LAUNCH_DEATH_REPORTS_H_
#define SLUICE_CLI_LAUNCH_DEATH_REPORTS_H_

#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "cli/launch/supervision.h"
#include "proto/coordinator.pb.h"

namespace sluice {

// Of which children's deaths the coordinator has still to be told. Each is told
// until it has answered, for a while. Holds no process and no clock.
//
// Not thread-safe: call from one thread.
class DeathReports {
 public:
  // By then a lease of the default length is long over, and a longer one is
  // only waited out.
  static constexpr absl::Duration kTryFor = absl::Seconds(30);

  // Nothing follows from the end of one who ended well, and so took his leave,
  // nor from the lead's: nobody is left to be told.
  void Add(const PartEnd& end, absl::Time now);
  // Those to be told now, oldest first.
  std::vector<proto::DeathReport> Due(absl::Time now);
  // The coordinator has answered it, whatever it says.
  void Answered(const proto::DeathReport& report);

 private:
  std::vector<std::pair<absl::Time, proto::DeathReport>> pending_;
};

}  // namespace sluice

#endif  // SLUICE_CLI_LAUNCH_DEATH_REPORTS_H_
