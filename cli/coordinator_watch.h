#ifndef SLUICE_CLI_COORDINATOR_WATCH_H_
#define SLUICE_CLI_COORDINATOR_WATCH_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/clock.h"
#include "proto/coordinator.grpc.pb.h"

namespace sluice {

// What a bystander asks of a coordinator: how the run stands, and to end it.
// Every call blocks for at most kPatience. Thread-safe.
class CoordinatorWatch {
 public:
  // A local call takes well under a millisecond; a coordinator that computes
  // on all cores may be late, and the display should not freeze for long.
  static constexpr absl::Duration kPatience = absl::Seconds(2);

  // `clock` outlives this.
  CoordinatorWatch(const std::string& address, Clock* clock);

  // kUnavailable, kDeadlineExceeded: nobody answers.
  absl::StatusOr<proto::JobStatus> GetStatus();
  absl::Status Stop(const std::string& reason);

 private:
  // Constant after construction.
  Clock* const clock_;
  const std::unique_ptr<proto::Coordinator::Stub> stub_;
};

}  // namespace sluice

#endif  // SLUICE_CLI_COORDINATOR_WATCH_H_
