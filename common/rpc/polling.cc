#include "common/rpc/polling.h"

#include <cstdlib>

namespace sluice {

void PollQueuesApart() {
  // gRPC has no other way to set this.
  setenv("GRPC_POLL_STRATEGY", "poll", /*replace=*/0);
}

}  // namespace sluice
