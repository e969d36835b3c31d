#ifndef SLUICE_PS_SERVER_COORDINATOR_SESSION_FRAME_SINK_H_
#define SLUICE_PS_SERVER_COORDINATOR_SESSION_FRAME_SINK_H_

#include <string>

#include "absl/status/status.h"
#include "proto/coordinator.pb.h"

namespace sluice {

// The writing side of one connection of a session: SessionStream where there
// is a network, the simulation's elsewhere. Flush is called outside of the
// owner's lock: where there are several threads, the sink is thread-safe.
class FrameSink {
 public:
  virtual ~FrameSink() = default;

  // These two only take note, for use under the owner's lock: Flush carries
  // them out. Queues a frame to be written.
  virtual void Queue(proto::FromCoordinator frame) = 0;
  // The connection is to end with `status`, after the frames that are being
  // written; what else is queued is left out. Further calls do nothing.
  virtual void End(const absl::Status& status) = 0;

  // Begins what has been asked for, without waiting for it.
  virtual void Flush() = 0;

  // Whether nothing is queued or being written.
  virtual bool idle() const = 0;
  // Whether End has been called.
  virtual bool ending() const = 0;
  // Whether the peer is in the owner's own process: it lives while that does,
  // and sends no heartbeats.
  virtual bool local() const { return false; }
  // The key of the certificate with which the peer has shown itself
  // (Caller::key); empty in plain text.
  virtual std::string holder() const { return ""; }
};

}  // namespace sluice

#endif  // SLUICE_PS_SERVER_COORDINATOR_SESSION_FRAME_SINK_H_
