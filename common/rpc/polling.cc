#include "common/rpc/polling.h"

#include <cstdlib>

namespace sluice {

void PollQueuesApart() {
  // The only way in which gRPC can be told.
  setenv("GRPC_POLL_STRATEGY", "poll", /*replace=*/0);
}

}  // namespace sluice
