#ifndef SLUICE_COMMON_JOB_JOB_COUNTS_H_
#define SLUICE_COMMON_JOB_JOB_COUNTS_H_

#include "proto/job.pb.h"

// How many gradients and workers a job has at once. REQUIRES, of all: its
// defaults are filled in.
namespace sluice {

// No job has more (cluster.workers, cluster.max_workers).
constexpr int kMostWorkers = 65536;

// Number of gradients in an update if no worker is missing; the largest one if
// it changes during the run (sync.k_schedule).
int MostGradientsPerUpdate(const proto::Sync& sync);

// Whether shards add gradients up as they come, each in its turn, because they
// have room for fewer than an update takes (limits.staged_gradients).
bool FoldsGradients(const proto::Job& job);
// Whether they could: every gradient of an update is known to be in it before
// all are there.
bool CanFoldGradients(const proto::Job& job);

// Most workers that may take part at once.
int MostWorkers(const proto::Cluster& cluster);

}  // namespace sluice

#endif  // SLUICE_COMMON_JOB_JOB_COUNTS_H_
