#include "ps_server/coordinator/core/task_table.h"

#include <vector>

#include "gtest/gtest.h"

namespace sluice {
namespace {

const absl::Time kStart = absl::UnixEpoch();

class TaskTableTest : public testing::Test {
 protected:
  // It may take 10 s from `seconds` on.
  GradientKey Open(int64_t worker, int64_t version, int64_t seconds = 0) {
    Task task;
    task.key = tasks_.NextKey(WorkerId(worker), Incarnation(1));
    task.version = Version(version);
    const absl::Time now = kStart + absl::Seconds(seconds);
    tasks_.Open(task, BlockId(worker), 4, now, now + absl::Seconds(10));
    return task.key;
  }
  void MakeReady(const GradientKey& key, std::vector<Version> bases) {
    Delivery delivery;
    delivery.key = key;
    delivery.shard_bases = std::move(bases);
    tasks_.MarkReady(delivery, kStart);
  }

  TaskTable tasks_{Generation(3)};
};

TEST_F(TaskTableTest, AKeyCarriesGenerationWorkerIncarnationAndSequence) {
  EXPECT_EQ(tasks_.NextKey(WorkerId(5), Incarnation(1)).ToString(),
            "g3/w5/i1/s1");
  EXPECT_EQ(tasks_.NextKey(WorkerId(5), Incarnation(1)).ToString(),
            "g3/w5/i1/s2");
  // Sequences count from 1 in every incarnation, by worker.
  EXPECT_EQ(tasks_.NextKey(WorkerId(5), Incarnation(2)).ToString(),
            "g3/w5/i2/s1");
  EXPECT_EQ(tasks_.NextKey(WorkerId(6), Incarnation(1)).ToString(),
            "g3/w6/i1/s1");
}

TEST_F(TaskTableTest, ATaskIsLiveUntilItsGradientIsReady) {
  const GradientKey key = Open(1, 0);
  EXPECT_EQ(tasks_.LiveOf(WorkerId(1)), tasks_.Find(key));
  EXPECT_EQ(tasks_.live(), 1);
  MakeReady(key, {Version(4), Version(2), Version(3)});
  EXPECT_EQ(tasks_.LiveOf(WorkerId(1)), nullptr);
  EXPECT_EQ(tasks_.live(), 0);
  EXPECT_EQ(tasks_.open(), 1);
  EXPECT_EQ(tasks_.AllReady(), std::vector<GradientKey>{key});
  tasks_.Close(key);
  EXPECT_EQ(tasks_.Find(key), nullptr);
  EXPECT_EQ(tasks_.open(), 0);
}

TEST_F(TaskTableTest, TheBaseIsTheOldestVersionPulledFromAnyShard) {
  const GradientKey key = Open(1, 0);
  MakeReady(key, {Version(4), Version(2), Version(3)});
  EXPECT_EQ(tasks_.Find(key)->base, Version(2));
}

TEST_F(TaskTableTest, FindsLiveTasksByTheVersionTheyStartFrom) {
  const GradientKey older = Open(2, 2);
  const GradientKey old = Open(1, 3);
  Open(3, 4);
  EXPECT_EQ(tasks_.LiveBelow(Version(4)),
            (std::vector<GradientKey>{older, old}));
  MakeReady(older, {Version(2)});
  EXPECT_EQ(tasks_.LiveBelow(Version(4)), (std::vector<GradientKey>{old}));
}

TEST_F(TaskTableTest, OnlyLiveTasksHaveADeadline) {
  const GradientKey first = Open(1, 0, 0);
  const GradientKey second = Open(2, 0, 0);
  Open(3, 0, 1);
  MakeReady(second, {Version(0)});
  EXPECT_TRUE(tasks_.Overdue(kStart + absl::Seconds(9)).empty());
  EXPECT_EQ(tasks_.Overdue(kStart + absl::Seconds(10)),
            std::vector<GradientKey>{first});
}

TEST_F(TaskTableTest, KnowsWhichTasksHaveBeenLiveSinceATime) {
  const GradientKey first = Open(1, 0, 0);
  const GradientKey second = Open(2, 0, 3);
  const GradientKey third = Open(3, 0, 4);
  MakeReady(second, {Version(0)});
  const auto since = tasks_.LiveSince(kStart + absl::Seconds(3));
  ASSERT_EQ(since.size(), 1);
  EXPECT_EQ(since.front()->task.key, first);
  EXPECT_EQ(since.front()->opened, kStart);
  EXPECT_EQ(tasks_.LiveSince(kStart + absl::Seconds(4)).back()->task.key,
            third);
}

TEST_F(TaskTableTest, ATaskThatMayTakeLongerHidesNoneThatIsOverdue) {
  Open(1, 0, 9);
  const GradientKey second = Open(2, 0, 4);
  EXPECT_EQ(tasks_.Overdue(kStart + absl::Seconds(14)),
            std::vector<GradientKey>{second});
  tasks_.Close(second);
  EXPECT_TRUE(tasks_.Overdue(kStart + absl::Seconds(14)).empty());
}

}  // namespace
}  // namespace sluice
