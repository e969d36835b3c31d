#include "common/job/group.h"

#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

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

TEST(GroupTest, EachMemberCallsThoseOfTheStageBefore) {
  const auto links = LinksOfMembers(Job(R"(
    cluster { workers: 2 }
    worker { group { pipeline_stages: 3 slots: 2 replicas: [ 2, 1, 2 ] } })"));
  ASSERT_EQ(links.size(), 5);
  for (const int member : {0, 1}) {
    EXPECT_THAT(links[member].upstreams, IsEmpty());
    EXPECT_TRUE(links[member].listens);
  }
  EXPECT_THAT(links[2].upstreams, ElementsAre(0, 1));
  EXPECT_TRUE(links[2].listens);
  for (const int member : {3, 4}) {
    EXPECT_THAT(links[member].upstreams, ElementsAre(2));
    EXPECT_FALSE(links[member].listens);
  }
}

TEST(GroupTest, AProcessAloneCallsNobody) {
  const auto links =
      LinksOfMembers(Job("cluster { workers: 4 } "
                         "worker { group { pipeline_stages: 1 slots: 2 } }"));
  ASSERT_EQ(links.size(), 1);
  EXPECT_THAT(links[0].upstreams, IsEmpty());
  EXPECT_FALSE(links[0].listens);
}

}  // namespace
}  // namespace sluice
