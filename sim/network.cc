// A link is one number: the time at which it is free again. A transfer occupies
// the sender's link and the receiver's link independently, and has arrived when
// both are done. At 1,000 bytes per second on every link, two transfers of
// 1,000 bytes from one shard to two workers arrive after 1 s and 2 s: they
// share the shard's link. From two shards to two workers both arrive after 1 s.
#include "sim/network.h"

#include <algorithm>
#include <numeric>

#include "common/status_macros.h"

namespace sluice {

absl::StatusOr<Network> Network::Create(const proto::Job& job,
                                        double worker_links) {
  Network network;
  const proto::Delays& delays = job.delays();
  SLUICE_ASSIGN_OR_RETURN(
      network.latency_,
      DelayModel::Create(delays.latency(), job.seed(), "delays.latency",
                         job.cluster().workers()));
  network.workers_ = job.cluster().workers();
  network.worker_bandwidth_ = delays.worker_bandwidth() * worker_links;
  network.shard_bandwidth_ = delays.shard_bandwidth();
  return network;
}

VirtualTime Network::Latency(WorkerId worker) {
  return VirtualSeconds(latency_.DrawTogether(worker.value(), messages_++));
}

// As of a worker beyond the last, who has no speed and no lines of its own.
VirtualTime Network::Latency(ShardId shard) {
  return shard == ShardId(0) ? 0 : Latency(WorkerId(workers_));
}

double Network::MeanOfTask(const std::vector<int64_t>& pull_bytes,
                           const std::vector<int64_t>& push_bytes) const {
  // Task, pull, weights, gradient; and with several shards their answer and the
  // worker's message that it has them all.
  double seconds = (push_bytes.size() > 1 ? 6 : 4) * latency_.Mean();
  for (const std::vector<int64_t>* bytes : {&pull_bytes, &push_bytes}) {
    const auto all = std::accumulate(bytes->begin(), bytes->end(), 0.0);
    const auto most = std::accumulate(
        bytes->begin(), bytes->end(), 0.0,
        [](double a, int64_t b) { return std::max<double>(a, b); });
    if (worker_bandwidth_ > 0) seconds += all / worker_bandwidth_;
    if (shard_bandwidth_ > 0) seconds += workers_ * most / shard_bandwidth_;
  }
  return seconds;
}

VirtualTime Network::Send(VirtualTime now, double bandwidth, int64_t bytes,
                          int64_t link, Links* links) {
  if (bandwidth == 0) return now;
  if (link >= static_cast<int64_t>(links->size())) links->resize(link + 1);
  VirtualTime& free = (*links)[link];
  free = Later(std::max(free, now),
               VirtualSeconds(static_cast<double>(bytes) / bandwidth));
  return free;
}

VirtualTime Network::ToWorker(VirtualTime now, ShardId shard, WorkerId worker,
                              int64_t bytes) {
  const VirtualTime sent = std::max(
      Send(now, shard_bandwidth_, bytes, shard.value(), &from_shards_),
      Send(now, worker_bandwidth_, bytes, worker.value(), &to_workers_));
  return Later(sent - now, Latency(worker));
}

VirtualTime Network::ToShard(VirtualTime now, WorkerId worker, ShardId shard,
                             int64_t bytes) {
  const VirtualTime sent = std::max(
      Send(now, worker_bandwidth_, bytes, worker.value(), &from_workers_),
      Send(now, shard_bandwidth_, bytes, shard.value(), &to_shards_));
  return Later(sent - now, Latency(worker));
}

}  // namespace sluice
