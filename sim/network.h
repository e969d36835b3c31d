#ifndef SLUICE_SIM_NETWORK_H_
#define SLUICE_SIM_NETWORK_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "common/ids.h"
#include "common/job/delay_model.h"
#include "proto/job.pb.h"
#include "sim/event_queue.h"

namespace sluice {

// The job's network in virtual time. Every message has a latency. Each worker
// and each shard has a link in each direction for weights and gradients; a link
// sends whole transfers one after the other, and a transfer takes as long as
// the slower of its two links. Small messages cost latency only.
//
// Not thread-safe: call from the thread that simulates.
class Network {
 public:
  // A network without latency and limits.
  Network() = default;
  // Errors are those of DelayModel::Create.
  // `worker_links`: as many times delays.worker_bandwidth has each worker.
  static absl::StatusOr<Network> Create(const proto::Job& job,
                                        double worker_links = 1);

  // Latency of the next message, in nanoseconds: of one from or to a worker, or
  // of one between the coordinator and a shard. The latter are never slow
  // (two_speed), and draw from all lines of a trace; shard 0 is in the
  // coordinator's process and has none.
  VirtualTime Latency(WorkerId worker);
  VirtualTime Latency(ShardId shard);

  // Mean seconds that the messages of one task take, one after the other, from
  // the task to the coordinator's news that the gradient is there. Every worker
  // has such a task at that time. By shard, the bytes of its weights and of its
  // part of the gradient.
  double MeanOfTask(const std::vector<int64_t>& pull_bytes,
                    const std::vector<int64_t>& push_bytes) const;

  // Nanoseconds from `now` until `bytes` sent now have arrived, including the
  // latency.
  VirtualTime ToWorker(VirtualTime now, ShardId shard, WorkerId worker,
                       int64_t bytes);
  VirtualTime ToShard(VirtualTime now, WorkerId worker, ShardId shard,
                      int64_t bytes);

 private:
  // When each link has sent everything it was given.
  using Links = std::vector<VirtualTime>;

  static VirtualTime Send(VirtualTime now, double bandwidth, int64_t bytes,
                          int64_t link, Links* links);

  // Constant after construction. Bandwidths are in bytes per second; 0: no
  // limit.
  DelayModel latency_;
  int workers_ = 0;
  double worker_bandwidth_ = 0;
  double shard_bandwidth_ = 0;

  int64_t messages_ = 0;
  Links from_workers_, to_workers_, from_shards_, to_shards_;
};

}  // namespace sluice

#endif  // SLUICE_SIM_NETWORK_H_
