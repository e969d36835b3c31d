#include "cli/plot/activity_timeline.h"

#include <ostream>
#include <vector>

#include "gtest/gtest.h"
#include "proto/coordinator.pb.h"

namespace sluice {

bool operator==(const Bar& a, const Bar& b) {
  return a.worker == b.worker && a.begin == b.begin && a.end == b.end &&
         a.activity == b.activity && a.version == b.version;
}
std::ostream& operator<<(std::ostream& out, const Bar& bar) {
  return out << "worker " << bar.worker << " " << bar.begin << "-" << bar.end
             << " activity " << static_cast<int>(bar.activity) << " v"
             << bar.version;
}

namespace {

// A log whose coordinator had been up for 100 s when the first task came.
class ActivityTimelineTest : public testing::Test {
 protected:
  void Task(double at, int64_t worker, int64_t sequence,
            int64_t incarnation = 1) {
    proto::LogTask* task = At(at)->mutable_task();
    task->set_worker(worker);
    task->set_incarnation(incarnation);
    task->set_sequence(sequence);
  }
  void End(double at, int64_t worker, int64_t sequence, proto::Outcome outcome,
           double waited = 0, int64_t incarnation = 1) {
    proto::LogEnd* end = At(at)->mutable_end();
    end->set_worker(worker);
    end->set_incarnation(incarnation);
    end->set_sequence(sequence);
    end->set_outcome(outcome);
    end->set_waited_seconds(waited);
  }
  proto::LogCommit* Commit(double at, int64_t version) {
    proto::LogCommit* commit = At(at)->mutable_commit();
    commit->set_version(version);
    return commit;
  }
  static void Add(proto::LogCommit* commit, int64_t worker, int64_t sequence,
                  double waited) {
    proto::LogEntry* entry = commit->add_entry();
    entry->set_worker(worker);
    entry->set_incarnation(1);
    entry->set_sequence(sequence);
    entry->set_waited_seconds(waited);
  }

  CommitLog log_;

 private:
  proto::LogRecord* At(double seconds) {
    log_.records.emplace_back();
    log_.records.back().set_seconds(100 + seconds);
    return &log_.records.back();
  }
};

using Bars = std::vector<Bar>;

TEST_F(ActivityTimelineTest,
       AWorkerComputesUntilItsGradientIsReadyAndThenWaits) {
  Task(0, 0, 1);
  Task(0, 1, 1);
  proto::LogCommit* commit = Commit(4, 1);
  Add(commit, 0, 1, /*waited=*/3);
  Add(commit, 1, 1, /*waited=*/0);
  Task(4, 0, 2);
  Task(4, 1, 2);
  const ActivityTimeline timeline = TimelineOf(log_, 4, 16);
  EXPECT_EQ(timeline.bars, (Bars{{0, 0, 1, Activity::kApplied, 1},
                                 {0, 1, 4, Activity::kWaits},
                                 {1, 0, 4, Activity::kApplied, 1}}));
  EXPECT_EQ(timeline.updates, std::vector<double>{4});
}

TEST_F(ActivityTimelineTest, WhatEndsOtherwiseIsDrawnByItsVerdict) {
  Task(0, 0, 1);
  End(2, 0, 1, proto::CANCELLED);
  Task(2, 0, 2);
  End(5, 0, 2, proto::DROPPED, /*waited=*/1);
  Task(5, 0, 3);
  End(6, 0, 3, proto::REJECTED);
  Task(6, 0, 4);
  EXPECT_EQ(TimelineOf(log_, 10, 16).bars,
            (Bars{{0, 0, 2, Activity::kCancelled},
                  {0, 2, 4, Activity::kDropped},
                  {0, 4, 5, Activity::kWaits},
                  {0, 5, 6, Activity::kRejected},
                  {0, 6, 10, Activity::kUnfinished}}));
}

TEST_F(ActivityTimelineTest, AWorkerThatMayHaveBeenDeadIsNotSaidToWait) {
  Task(0, 0, 1);
  Task(0, 1, 1);
  End(1, 0, 1, proto::CANCELLED);
  End(1, 1, 1, proto::CANCELLED);
  Task(3, 1, 1, /*incarnation=*/2);
  End(4, 1, 1, proto::CANCELLED, 0, 2);
  Task(5, 1, 2, 2);
  EXPECT_EQ(TimelineOf(log_, 6, 16).bars,
            (Bars{{0, 0, 1, Activity::kCancelled},
                  {1, 0, 1, Activity::kCancelled},
                  {1, 3, 4, Activity::kCancelled},
                  {1, 4, 5, Activity::kWaits},
                  {1, 5, 6, Activity::kUnfinished}}));
}

TEST_F(ActivityTimelineTest, BarsAreCutWhereThePictureEnds) {
  Task(0, 0, 1);
  Task(1, 1, 1);
  Add(Commit(8, 1), 0, 1, 0);
  Task(8, 0, 2);
  const ActivityTimeline timeline = TimelineOf(log_, 2, 16);
  EXPECT_EQ(timeline.bars, (Bars{{0, 0, 2, Activity::kApplied, 1},
                                 {1, 0, 1, Activity::kWaits},
                                 {1, 1, 2, Activity::kUnfinished}}));
  EXPECT_TRUE(timeline.updates.empty());
}

TEST_F(ActivityTimelineTest, OnlyTheFirstWorkersAreShownAndAllAreCounted) {
  for (int worker = 4; worker >= 0; --worker) Task(0, worker, 1);
  const ActivityTimeline timeline = TimelineOf(log_, 1, 2);
  EXPECT_EQ(timeline.workers, (std::vector<int64_t>{0, 1}));
  EXPECT_EQ(timeline.all_workers, 5);
  EXPECT_EQ(timeline.bars.size(), 2);
}

TEST_F(ActivityTimelineTest, ALogThatLacksAnEntrysTaskIsDrawnWithoutIt) {
  Task(0, 0, 1);
  proto::LogCommit* commit = Commit(2, 1);
  Add(commit, 0, 1, 0);
  Add(commit, 7, 3, 0);
  End(2, 9, 1, proto::CANCELLED);
  EXPECT_EQ(TimelineOf(log_, 2, 16).bars,
            (Bars{{0, 0, 2, Activity::kApplied, 1}}));
}

TEST_F(ActivityTimelineTest, AWorkerHasOneBarAtATimeAlsoWhereNoWaitIsRecorded) {
  Task(0, 0, 1);
  Task(1, 0, 2);
  proto::LogCommit* commit = Commit(4, 1);
  Add(commit, 0, 1, 0);
  Add(commit, 0, 2, 0);
  EXPECT_EQ(TimelineOf(log_, 4, 16).bars,
            (Bars{{0, 0, 1, Activity::kApplied, 1},
                  {0, 1, 4, Activity::kApplied, 1}}));
}

TEST_F(ActivityTimelineTest, TheEndIsThatOfTheUpdateAskedForOrOfTheLast) {
  EXPECT_EQ(EndOfUpdate(log_, 3), 0);
  Task(0, 0, 1);
  for (int version = 1; version <= 4; ++version) Commit(2 * version, version);
  EXPECT_EQ(EndOfUpdate(log_, 3), 6);
  EXPECT_EQ(EndOfUpdate(log_, 9), 8);
}

}  // namespace
}  // namespace sluice
