#ifndef SLUICE_SIM_NETWORK_H_
#define SLUICE_SIM_NETWORK_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "common/delay_model.h"
#include "common/ids.h"
#include "proto/job.pb.h"
#include "sim/event_queue.h"

namespace sluice {

// The job's network in virtual time: a latency for every message, and for the
// weights and gradients a link of each worker and each shard, one each way.
// A transfer takes the slower of its two links, whole transfers one after the
// other. Small messages cost latency only.
//
// Not thread-safe: call from the thread that simulates.
class Network {
 public:
  // No latency, no limit.
  Network() = default;
  // Errors as DelayModel::Create's.
  static absl::StatusOr<Network> Create(const proto::Job& job);

  // Nanoseconds that the next message is under way.
  VirtualTime Latency();

  // Nanoseconds from `now` until `bytes` that are sent now have arrived,
  // latency included.
  VirtualTime ToWorker(VirtualTime now, ShardId shard, WorkerId worker,
                       int64_t bytes);
  VirtualTime ToShard(VirtualTime now, WorkerId worker, ShardId shard,
                      int64_t bytes);

 private:
  // When each link has sent all it was given.
  using Links = std::vector<VirtualTime>;

  static VirtualTime Send(VirtualTime now, double bandwidth, int64_t bytes,
                          int64_t link, Links* links);

  // Constant after construction; bandwidth in bytes per second, 0: no limit.
  DelayModel latency_;
  double worker_bandwidth_ = 0;
  double shard_bandwidth_ = 0;

  int64_t messages_ = 0;
  Links from_workers_, to_workers_, from_shards_, to_shards_;
};

}  // namespace sluice

#endif  // SLUICE_SIM_NETWORK_H_
