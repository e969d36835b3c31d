#include "common/group.h"

#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;

proto::Job Job(const std::string& text) {
  proto::Job job;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &job));
  return job;
}

TEST(GroupTest, AWorkerOfOneProcessIsAGroupOfItsOwn) {
  const proto::Job job =
      Job("cluster { workers: 3 } worker { group { pipeline_stages: 1 slots: 1 "
          "} }");
  EXPECT_FALSE(IsGroup(job));
  EXPECT_EQ(GroupsOf(job), 3);
  EXPECT_EQ(MembersOf(job), 1);
  EXPECT_EQ(WorkerOfSlot(job, 2, 0), WorkerId(2));
  EXPECT_EQ(GroupOf(job, WorkerId(7)), 7);  // Of cluster.max_workers.
  EXPECT_EQ(SlotOf(job, WorkerId(7)), 0);
}

// The header's example, of two groups.
TEST(GroupTest, SlotsTakeTurnsAmongReplicas) {
  const proto::Job job = Job(R"(
    cluster { workers: 6 }
    worker { group { pipeline_stages: 2 slots: 3 replicas: [ 2, 1 ] } })");
  EXPECT_TRUE(IsGroup(job));
  EXPECT_EQ(GroupsOf(job), 2);
  EXPECT_EQ(MembersOf(job), 3);
  EXPECT_EQ(WorkerOfSlot(job, 1, 2), WorkerId(5));
  EXPECT_EQ(GroupOf(job, WorkerId(5)), 1);
  EXPECT_EQ(SlotOf(job, WorkerId(5)), 2);
  EXPECT_EQ(StageOfMember(job, 0), 0);
  EXPECT_EQ(StageOfMember(job, 1), 0);
  EXPECT_EQ(StageOfMember(job, 2), 1);
  EXPECT_THAT(SlotsOfMember(job, 0), ElementsAre(0, 2));
  EXPECT_THAT(SlotsOfMember(job, 1), ElementsAre(1));
  EXPECT_THAT(SlotsOfMember(job, 2), ElementsAre(0, 1, 2));
  EXPECT_EQ(MemberOfSlot(job, 0, 2), 0);
  EXPECT_EQ(MemberOfSlot(job, 1, 2), 2);
}

}  // namespace
}  // namespace sluice
