#include "ps_server/coordinator/session/coordinator_service_testing.h"

#include "absl/strings/str_cat.h"
#include "common/process/named_thread.h"
#include "ps_server/coordinator/testing/jobs.h"

namespace sluice::testing {

CoordinatorService::Options RunOf(int shards, int workers, int64_t updates) {
  CoordinatorService::Options options;
  options.core = PlainJob();
  options.core.job.mutable_cluster()->set_shards(shards);
  options.core.job.mutable_cluster()->set_workers(workers);
  options.core.job.mutable_cluster()->set_max_workers(workers + 8);
  options.core.job.mutable_sync()->set_policy(proto::ASYNC);
  options.core.job.mutable_limits()->set_staged_gradients(1 + workers);
  options.core.train_samples = 1000;
  options.core.job.mutable_data()->set_batch_size(10);
  options.core.job.mutable_stop()->set_updates(updates);
  options.core.tick = absl::Milliseconds(10);
  options.core.job.mutable_limits()->set_lease_s(1);
  options.core.finish_timeout = absl::Seconds(5);
  options.farewell_timeout = absl::Seconds(1);
  options.job_name = "test";
  options.fingerprint = "abc";
  options.job_text = "seed: 1\n";
  return options;
}

proto::Join JoinOf(proto::Role role, int64_t id) {
  proto::Join join;
  join.set_role(role);
  join.set_id(id);
  join.set_fingerprint("abc");
  join.set_job("seed: 1\n");
  join.set_address(absl::StrCat("shard", id, ":1"));
  join.set_session_secret("the secret of a test");
  return join;
}

proto::ToCoordinator JoinFrame(proto::Role role, int64_t id) {
  proto::ToCoordinator frame;
  *frame.mutable_join() = JoinOf(role, id);
  return frame;
}

FakePeer::FakePeer(const Lead& lead, proto::Role role, int64_t id, int shards,
                   std::function<void(const proto::Ready&)> say)
    : shards_(shards), say_(std::move(say)) {
  CoordinatorClient::Options options;
  options.address = lead.address();
  options.join = JoinOf(role, id);
  options.start_timeout = kPatience;
  options.on_message = [this](const proto::FromCoordinator& message) {
    OnMessage(message);
  };
  // Connect blocks a worker until the shards are there.
  thread_ = StartThread("fake-peer", [this, options = std::move(options)] {
    auto client = CoordinatorClient::Connect(options);
    absl::MutexLock lock(&mu_);
    status_ = client.status();
    connected_ = true;
    if (!client.ok()) return;
    client_ = *std::move(client);
    for (auto& answer : early_) client_->Send(std::move(answer));
  });
}

void FakePeer::OnMessage(const proto::FromCoordinator& message) {
  proto::ToCoordinator answer;
  if (message.has_task()) {
    *answer.mutable_ready()->mutable_key() = message.task().key();
    for (int i = 0; i < shards_; ++i) {
      answer.mutable_ready()->add_shard_base(message.task().version());
    }
    answer.mutable_ready()->set_samples(10);
    answer.mutable_ready()->set_loss(1);
  } else if (message.has_decision()) {
    if (message.decision().has_commit()) {
      version_ = message.decision().commit().version();
    }
    answer.mutable_executed()->set_decision(message.decision().number());
    answer.mutable_executed()->set_version(version_);
  }
  if (answer.has_ready() && say_ != nullptr) {
    say_(answer.ready());
    answer.clear_ready();
  }
  absl::MutexLock lock(&mu_);
  received_.push_back(message);
  arrived_.SignalAll();
  if (answer.body_case() == proto::ToCoordinator::BODY_NOT_SET) return;
  if (client_ == nullptr) {
    early_.push_back(answer);
  } else {
    client_->Send(answer);
  }
}

void ExpectNumbered(const std::vector<proto::FromCoordinator>& messages) {
  int64_t decision = 0;
  for (size_t i = 0; i < messages.size(); ++i) {
    ASSERT_EQ(messages[i].sequence(), i + 1);
    if (messages[i].has_decision()) {
      ASSERT_EQ(messages[i].decision().number(), ++decision);
    }
  }
}

}  // namespace sluice::testing
