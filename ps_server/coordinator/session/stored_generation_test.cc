// What shards say of checkpoints counts in its own generation only.
#include <memory>

#include "gtest/gtest.h"
#include "ps_server/coordinator/session/coordinator_sessions.h"
#include "ps_server/coordinator/testing/jobs.h"

namespace sluice {
namespace {

class SilentConnection final : public FrameSink {
 public:
  void Queue(proto::FromCoordinator) override {}
  void End(const absl::Status&) override {}
  void Flush() override {}
  bool idle() const override { return true; }
  bool ending() const override { return false; }
};

// Of what shard 0 stored in `generation`, when generation 2 runs.
bool IsRemoved(int64_t generation) {
  CoordinatorOptions options = SmallJob(proto::ASYNC, 1, 1);
  options.generation = Generation(2);
  options.job.mutable_checkpoint()->set_every_updates(1);
  CoordinatorSessions sessions(options, absl::UnixEpoch());
  const auto connection = std::make_shared<SilentConnection>();
  proto::ToCoordinator join;
  join.mutable_join()->set_role(proto::SHARD);
  join.mutable_join()->set_session_secret("the secret of a test");
  EXPECT_TRUE(sessions.OnFrame(connection, join, absl::UnixEpoch()).ok());
  proto::ToCoordinator stored;
  stored.set_sequence(1);
  stored.mutable_stored()->set_generation(generation);
  stored.mutable_stored()->set_version(5);
  EXPECT_TRUE(sessions.OnFrame(connection, stored, absl::UnixEpoch()).ok());
  for (const Action& action : sessions.TakeActions()) {
    if (std::holds_alternative<RemoveStored>(action)) return true;
  }
  return false;
}

TEST(StoredGenerationTest, APartThatNobodyWaitsForIsRemoved) {
  EXPECT_TRUE(IsRemoved(2));
}

// Version 5 of generation 2 may be another, and whole.
TEST(StoredGenerationTest, APartOfAnEarlierGenerationChangesNothing) {
  EXPECT_FALSE(IsRemoved(1));
}

}  // namespace
}  // namespace sluice
