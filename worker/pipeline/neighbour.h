#ifndef SLUICE_WORKER_PIPELINE_NEIGHBOUR_H_
#define SLUICE_WORKER_PIPELINE_NEIGHBOUR_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/ids.h"
#include "worker/task/cancel_token.h"

namespace sluice {

// The member of this worker that has the stage before this one, or behind it.
// What lies between two stages travels from the one to the other once a pass:
// activations down, to the stage behind, and the gradient at them back up.
//
// The passes of a task are its micro-batches, counted over all its mini-batches
// from 0; in each direction they come in order. What is no pass's has a number
// below 0.
//
// Not thread-safe: call from the compute thread.
class Neighbour {
 public:
  virtual ~Neighbour() = default;

  // A task begins: what comes of earlier ones is passed over.
  virtual void Begin(const GradientKey& task) = 0;
  // Sends it a copy of `bytes`; nothing where it is gone, which Receive says.
  virtual void Send(int64_t pass, absl::Span<const uint8_t> bytes) = 0;
  // Waits for what it sends in that pass. kAborted: `cancel` was set.
  // kUnavailable: it is gone. kDataLoss: not so many bytes came, or of another
  // pass.
  virtual absl::Status Receive(int64_t pass, absl::Span<uint8_t> into,
                               const CancelToken& cancel) = 0;
};

}  // namespace sluice

#endif  // SLUICE_WORKER_PIPELINE_NEIGHBOUR_H_
