#include "ps_server/local_session.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ps_server/coordinator/session/coordinator_service_testing.h"

namespace sluice {
namespace {

using ::sluice::testing::ExpectNumbered;
using ::sluice::testing::JoinOf;
using ::sluice::testing::RunOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A coordinator and peers in one process. What a peer has been sent is read
// once the generation has ended or its session is closed: then nothing comes
// any more.
class LocalSessionTest : public ::testing::Test {
 protected:
  ~LocalSessionTest() override {
    shard_->Close();
    worker_->Close();
  }

  std::shared_ptr<LocalSession> Create(
      proto::Join join,
      std::function<void(const proto::FromCoordinator&)> on_message) {
    return LocalSession::Create({.service = &service_,
                                 .join = std::move(join),
                                 .on_message = std::move(on_message),
                                 .counters = [] {
                                   return CounterMap{{"pulls_served", 3}};
                                 }});
  }
  void OnShardMessage(const proto::FromCoordinator& message) {
    to_shard_.push_back(message);
    if (!message.has_decision()) return;
    if (message.decision().has_commit()) {
      version_ = message.decision().commit().version();
    }
    proto::ToCoordinator answer;
    answer.mutable_executed()->set_decision(message.decision().number());
    answer.mutable_executed()->set_version(version_);
    shard_->Send(std::move(answer));
  }
  void OnWorkerMessage(const proto::FromCoordinator& message) {
    to_worker_.push_back(message);
    if (!message.has_task()) return;
    proto::ToCoordinator answer;
    *answer.mutable_ready()->mutable_key() = message.task().key();
    answer.mutable_ready()->add_shard_base(message.task().version());
    answer.mutable_ready()->set_samples(10);
    answer.mutable_ready()->set_loss(1);
    worker_->Send(std::move(answer));
  }

  CoordinatorService service_{RunOf(/*shards=*/1, /*workers=*/1,
                                    /*updates=*/50),
                              nullptr, nullptr, nullptr};
  int64_t version_ = 0;
  std::vector<proto::FromCoordinator> to_shard_, to_worker_;
  std::shared_ptr<LocalSession> shard_ =
      Create(JoinOf(proto::SHARD, 0),
             [this](const auto& message) { OnShardMessage(message); });
  std::shared_ptr<LocalSession> worker_ =
      Create(JoinOf(proto::WORKER, 0),
             [this](const auto& message) { OnWorkerMessage(message); });
};

TEST_F(LocalSessionTest, WhatItHasCountedComesWithItsHeartbeats) {
  ASSERT_TRUE(shard_->Join().ok());
  ASSERT_TRUE(worker_->Join().ok());
  service_.AwaitEnd();
  EXPECT_EQ(service_.State().shards[0].counters,
            (CounterMap{{"pulls_served", 3}}));
}

TEST_F(LocalSessionTest, AShardThatJoinsIsKnownAtItsAddress) {
  ASSERT_TRUE(shard_->Join().ok());
  EXPECT_THAT(service_.AwaitShards(), ElementsAre("shard0:1"));
}

TEST_F(LocalSessionTest, TheCoordinatorsRefusalIsTold) {
  proto::Join join = JoinOf(proto::SHARD, 0);
  join.set_fingerprint("another");
  const auto session = Create(join, [](const auto&) {});
  const absl::Status status = session->Join();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("another job"));
}

TEST_F(LocalSessionTest, EveryMessageOfARunComesOnceAndInOrder) {
  ASSERT_TRUE(shard_->Join().ok());
  ASSERT_TRUE(worker_->Join().ok());
  const auto end = std::get<FinishRun>(service_.AwaitEnd());
  EXPECT_EQ(end.failure, "");
  EXPECT_EQ(service_.State().version, Version(50));
  EXPECT_EQ(version_, 50);
  for (const auto& messages : {to_shard_, to_worker_}) {
    ExpectNumbered(messages);
    EXPECT_TRUE(messages.back().has_finish());
  }
}

TEST_F(LocalSessionTest, WhoHasHeardOfTheEndNeedNotBeWaitedFor) {
  ASSERT_TRUE(shard_->Join().ok());
  service_.RequestStop("test");
  service_.AwaitEnd();
  shard_->Close();
  EXPECT_TRUE(to_shard_.back().has_finish());
  EXPECT_TRUE(shard_->ending());
}

TEST_F(LocalSessionTest, NothingIsHandedOnOnceItIsClosed) {
  ASSERT_TRUE(shard_->Join().ok());
  shard_->Close();
  const size_t heard = to_shard_.size();
  service_.RequestStop("test");
  service_.AwaitEnd();
  EXPECT_EQ(to_shard_.size(), heard);
}

}  // namespace
}  // namespace sluice
