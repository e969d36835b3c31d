#include "common/job/job_counts.h"

#include <algorithm>

namespace sluice {

int MostGradientsPerUpdate(const proto::Sync& sync) {
  if (sync.policy() == proto::SYNC) return sync.gradients_per_update();
  if (sync.policy() == proto::ASYNC) return 1;
  int most = sync.k();
  for (const proto::KChange& change : sync.k_schedule().by_version().change()) {
    most = std::max(most, change.k());
  }
  return std::max(most, sync.k_schedule().adaptive().max_k());
}

bool CanFoldGradients(const proto::Job& job) {
  const proto::Sync& sync = job.sync();
  const bool shrinks = job.data().sharding() == proto::Data::STATIC &&
                       sync.on_shortage() == proto::SHRINK;
  return sync.policy() == proto::SYNC &&
         sync.on_bad_gradient() == proto::FAIL && !shrinks;
}

bool FoldsGradients(const proto::Job& job) {
  return CanFoldGradients(job) &&
         job.limits().staged_gradients() < MostGradientsPerUpdate(job.sync());
}

int MostWorkers(const proto::Cluster& cluster) {
  return std::max(cluster.workers(), cluster.max_workers());
}

}  // namespace sluice
