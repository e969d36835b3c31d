#include "worker/job_sampling.h"

#include "gtest/gtest.h"

namespace sluice {
namespace {

bool Waits(proto::Policy policy, int gradients_per_update = 4) {
  proto::Job job;
  job.mutable_cluster()->set_workers(4);
  job.mutable_sync()->set_policy(policy);
  job.mutable_sync()->set_k(2);
  job.mutable_sync()->set_gradients_per_update(gradients_per_update);
  return WaitsForNextVersion(job);
}

TEST(WaitsForNextVersionTest, WhereEachWorkerHasOneTaskAVersion) {
  EXPECT_TRUE(Waits(proto::SYNC));
  EXPECT_TRUE(Waits(proto::K_SYNC));
  // Somebody gets a second task of the same version.
  EXPECT_FALSE(Waits(proto::SYNC, /*gradients_per_update=*/5));
  EXPECT_FALSE(Waits(proto::K_BATCH_SYNC));
}

TEST(WaitsForNextVersionTest, NotWhereAnyVersionWillDo) {
  EXPECT_FALSE(Waits(proto::ASYNC));
  EXPECT_FALSE(Waits(proto::K_ASYNC));
  EXPECT_FALSE(Waits(proto::K_BATCH_ASYNC));
}

}  // namespace
}  // namespace sluice
