#include "ps_server/coordinator/testing/jobs.h"

#include "common/status_macros.h"
#include "google/protobuf/text_format.h"

namespace sluice {

CoordinatorOptions PlainJob() {
  CoordinatorOptions options;
  Set(&options, R"(
      cluster { workers: 1 shards: 1 }
      sync {
        policy: SYNC k: 1 gradients_per_update: 1 local_steps: 1
        on_shortage: WAIT shortage_timeout_s: 60 on_bad_gradient: FAIL
        warm_start_updates: 0
      }
      optimizer { learning_rate: 0.01 }
      data { batch_size: 1 sharding: DYNAMIC }
      evaluation { every_epochs: 0 enabled: false }
      checkpoint { every_updates: 0 every_s: 0 keep: 2 }
      limits {
        staged_gradients: 1 commit_window: 4 lease_s: 5 task_deadline_s: 600
        start_timeout_s: 300 regroup_timeout_s: 10
      })");
  return options;
}

CoordinatorOptions SmallJob(proto::Policy policy, int workers, int k) {
  CoordinatorOptions options = PlainJob();
  proto::Job& job = options.job;
  job.mutable_cluster()->set_workers(workers);
  job.mutable_cluster()->set_max_workers(workers + 2);
  job.mutable_cluster()->set_shards(2);
  job.mutable_sync()->set_policy(policy);
  job.mutable_sync()->set_k(k);
  job.mutable_sync()->set_gradients_per_update(k);
  options.train_samples = 40;
  job.mutable_data()->set_batch_size(4);
  job.mutable_limits()->set_staged_gradients(k + workers);
  job.mutable_stop()->set_epochs(1);
  return options;
}

void Set(CoordinatorOptions* options, const std::string& fields) {
  SLUICE_CHECK(
      google::protobuf::TextFormat::MergeFromString(fields, &options->job));
}

proto::Staleness StalenessBound(int bound, proto::Staleness::Action action) {
  proto::Staleness staleness;
  staleness.set_bound(bound);
  staleness.set_action(action);
  return staleness;
}

}  // namespace sluice
