#ifndef SLUICE_WORKER_EXCHANGE_SHARED_SHARD_H_
#define SLUICE_WORKER_EXCHANGE_SHARED_SHARD_H_

#include <grpcpp/channel.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/process/shared_memory.h"
#include "common/wire/chunk_header.h"
#include "common/wire/shared_slots.h"

namespace sluice {

// Floats that HTTP/2 lets a peer send before it has heard from this one. Fewer,
// of one chunk, are rather sent than read where they lie.
inline constexpr int64_t kWindowFloats = (64 << 10) / sizeof(float);

// A shard on this host that shares memory with this process: its weights can be
// read where they lie, and it reads gradients where they are made.
//
// Thread-safe.
class SharedShard {
 public:
  // Links with the shard at the other end of `channel`, and shares `memories`
  // with it, which must outlive this. Blocks for `patience`, above 0, for the
  // call and for each message on the socket. Errors
  // say why memory cannot be shared: kNotFound where the shard is not in this
  // network namespace, kFailedPrecondition where it shares none, others of the
  // call, of the system, and of a shard that answers with something else.
  static absl::StatusOr<std::unique_ptr<SharedShard>> Link(
      const std::shared_ptr<grpc::Channel>& channel,
      const std::vector<const SharedMemory*>& memories,
      absl::Duration patience);

  uint64_t link() const { return link_; }
  // Whether the shard's process still holds its end.
  bool alive() const;

  // Where `floats` lie in memory that is shared; nullopt: nowhere.
  std::optional<SharedFloats> Find(absl::Span<const float> floats) const;

  // Copies the first floats of a slot. kDataLoss: there is no such slot, or it
  // has fewer. kUnavailable: it is not what it was.
  absl::Status Copy(const SlotState& slot, absl::Span<float> to) const;

 private:
  SharedShard(Descriptor socket, uint64_t link, SlotGeometry geometry,
              SharedView weights, std::vector<const SharedMemory*> memories)
      : socket_(std::move(socket)),
        link_(link),
        geometry_(geometry),
        weights_(std::move(weights)),
        memories_(std::move(memories)) {}

  // Constant after construction.
  const Descriptor socket_;
  const uint64_t link_;
  const SlotGeometry geometry_;
  const SharedView weights_;
  const std::vector<const SharedMemory*> memories_;
};

}  // namespace sluice

#endif  // SLUICE_WORKER_EXCHANGE_SHARED_SHARD_H_
