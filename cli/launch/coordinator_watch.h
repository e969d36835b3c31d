#ifndef SLUICE_CLI_LAUNCH_COORDINATOR_WATCH_H_
#define SLUICE_CLI_LAUNCH_COORDINATOR_WATCH_H_

#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "cli/run_folder.h"
#include "common/clock.h"
#include "common/tls/transport_security.h"
#include "proto/coordinator.grpc.pb.h"

namespace sluice {

// How long a lead that has answered before may be silent until nobody waits for
// it any longer. One that has died is started again sooner, unless nobody
// watches over it.
inline constexpr absl::Duration kLeadIsGoneAfter = absl::Seconds(20);

// How the operator of `job` talks to its coordinator, with the certificates in
// the folder `tls`, as `sluice certs` makes it; empty: in plain text. Errors as
// TransportSecurity::Open's. Starts threads.
absl::StatusOr<TransportSecurity> OpenAsOperator(const std::string& tls,
                                                 const std::string& job,
                                                 Clock* clock);

// A coordinator as somebody outside the run talks to it: asks for the status,
// asks it to stop the run or to store a version, and reports which process has
// died. When a coordinator is started again at its address, the next call
// reaches it; another run there refuses it (kNotFound), but for
// ReportDeath, which names a process. Every call blocks for at most `patience`.
//
// Not thread-safe: call from one thread.
class CoordinatorWatch {
 public:
  // A local call takes well under a millisecond. A coordinator whose machine is
  // busy may be late, but the display should not freeze for long.
  static constexpr absl::Duration kPatience = absl::Seconds(2);

  // With `credentials`; null: in plain text.
  explicit CoordinatorWatch(
      LeadAddress address,
      std::shared_ptr<grpc::ChannelCredentials> credentials = nullptr,
      absl::Duration patience = kPatience);

  // kUnavailable, kDeadlineExceeded: nobody answers. kUnimplemented: who
  // answers is no coordinator.
  absl::StatusOr<proto::JobStatus> GetStatus();
  // How the run stands then.
  absl::StatusOr<proto::JobStatus> Stop(const std::string& reason);
  // Has the next version stored, and returns its number. kFailedPrecondition,
  // kUnavailable: why not (proto/coordinator.proto).
  absl::StatusOr<int64_t> RequestCheckpoint();
  // kInvalidArgument: the job has no such process.
  absl::Status ReportDeath(const proto::DeathReport& report);

 private:
  void Connect();
  // The status of a call. Connects anew after an error.
  absl::Status Check(const grpc::Status& result);

  // Constant after construction.
  const LeadAddress address_;
  const std::shared_ptr<grpc::ChannelCredentials> credentials_;
  const absl::Duration patience_;

  std::unique_ptr<proto::Coordinator::Stub> stub_;
};

}  // namespace sluice

#endif  // SLUICE_CLI_LAUNCH_COORDINATOR_WATCH_H_
