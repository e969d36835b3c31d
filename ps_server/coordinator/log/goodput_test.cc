#include "ps_server/coordinator/log/goodput.h"

#include <map>
#include <ostream>
#include <tuple>
#include <vector>

#include "gtest/gtest.h"
#include "proto/coordinator.pb.h"

namespace sluice {

bool operator==(const WorkerSeconds& a, const WorkerSeconds& b) {
  for (const TimeCause& cause : kTimeCauses) {
    if (a.*cause.seconds != b.*cause.seconds) return false;
  }
  return true;
}
std::ostream& operator<<(std::ostream& out, const WorkerSeconds& time) {
  for (const TimeCause& cause : kTimeCauses) {
    out << cause.name << " " << time.*cause.seconds << " ";
  }
  return out;
}

namespace {

// The log of one generation, written by hand. All its times are small whole
// numbers of seconds, so sums are exact.
class Log {
 public:
  explicit Log(int64_t generation = 1, int64_t parent = 0,
               int64_t restored = 0) {
    log_.header.set_generation(generation);
    log_.header.set_parent_generation(parent);
    log_.header.set_restored_version(restored);
  }
  Log& Task(double at, int64_t worker, int64_t sequence,
            int64_t incarnation = 1) {
    proto::LogTask* task = At(at)->mutable_task();
    task->set_worker(worker);
    task->set_incarnation(incarnation);
    task->set_sequence(sequence);
    return *this;
  }
  Log& End(double at, int64_t worker, int64_t sequence, proto::Outcome outcome,
           double waited = 0) {
    EndOf(at, worker, sequence)->set_outcome(outcome);
    log_.records.back().mutable_end()->set_waited_seconds(waited);
    return *this;
  }
  // The worker died with its task.
  Log& Dies(double at, int64_t worker, int64_t sequence) {
    EndOf(at, worker, sequence)->set_outcome(proto::CANCELLED);
    log_.records.back().mutable_end()->set_worker_lost(true);
    return *this;
  }
  // Version `version`, of the tasks in `waited`: worker, sequence, and how long
  // its gradient had been ready.
  Log& Commit(double at, int64_t version,
              std::vector<std::tuple<int64_t, int64_t, double>> waited) {
    proto::LogCommit* commit = At(at)->mutable_commit();
    commit->set_version(version);
    for (const auto& [worker, sequence, seconds] : waited) {
      proto::LogEntry* entry = commit->add_entry();
      entry->set_worker(worker);
      entry->set_incarnation(1);
      entry->set_sequence(sequence);
      entry->set_waited_seconds(seconds);
    }
    return *this;
  }
  operator CommitLog() const { return log_; }

 private:
  proto::LogRecord* At(double seconds) {
    log_.records.emplace_back().set_seconds(seconds);
    return &log_.records.back();
  }
  proto::LogEnd* EndOf(double at, int64_t worker, int64_t sequence) {
    proto::LogEnd* end = At(at)->mutable_end();
    end->set_worker(worker);
    end->set_incarnation(1);
    end->set_sequence(sequence);
    return end;
  }

  CommitLog log_;
};

Goodput Measure(const std::vector<CommitLog>& logs) {
  std::vector<proto::LogHeader> headers;
  for (const CommitLog& log : logs) headers.push_back(log.header);
  GoodputMeter meter(headers);
  for (const CommitLog& log : logs) {
    meter.Begin(log.header);
    for (const proto::LogRecord& record : log.records) meter.Read(record);
    meter.End(log.torn);
  }
  return meter.Measured();
}

using Workers = std::map<int64_t, WorkerSeconds>;

TEST(GoodputTest, ATaskIsAppliedUntilItsGradientIsReadyAndIdleFromThenOn) {
  const Goodput goodput = Measure({Log()
                                       .Task(100, 0, 1)
                                       .Task(101, 1, 1)
                                       .Commit(104, 1, {{0, 1, 3}, {1, 1, 0}})
                                       .Task(105, 0, 2)
                                       .Commit(107, 2, {{0, 2, 0}})});
  EXPECT_EQ(goodput.workers, (Workers{{0, {.applied = 1 + 2, .idle = 4}},
                                      {1, {.applied = 3, .idle = 3}}}));
  EXPECT_EQ(goodput.version, Version(2));
  EXPECT_EQ(goodput.share(), 6.0 / 13);
}

TEST(GoodputTest, ATaskThatIsNotAppliedCountsByItsOutcome) {
  EXPECT_EQ(
      Measure({Log()
                   .Task(0, 0, 1)
                   .End(1, 0, 1, proto::CANCELLED)
                   .Task(1, 0, 2)
                   .End(5, 0, 2, proto::DROPPED, /*waited=*/2)
                   .Task(5, 0, 3)
                   .End(13, 0, 3, proto::REJECTED)
                   .Task(13, 0, 4)
                   .End(29, 0, 4, proto::LOST)})
          .workers,
      (Workers{
          {0, {.cancelled = 1, .dropped = 2 + 8, .lost = 16, .idle = 2}}}));
}

TEST(GoodputTest, ATaskThatDiesWithItsWorkerIsLostAndItsPlaceThenEmpty) {
  EXPECT_EQ(Measure({Log()
                         .Task(0, 0, 1)
                         .Task(0, 1, 1)
                         .Dies(1, 0, 1)
                         .Dies(2, 1, 1)
                         .Task(6, 1, 1, /*incarnation=*/2)
                         .Commit(8, 1, {})})
                .workers,
            // Worker 0 is last seen when it dies, worker 1 comes back.
            (Workers{{0, {.lost = 1}},
                     {1, {.lost = 2, .unfinished = 2, .absent = 4}}}));
}

TEST(GoodputTest, AWorkerThatDiesWithoutATaskIsAbsentFromItsLastOneOn) {
  EXPECT_EQ(Measure({Log()
                         .Task(0, 0, 1)
                         .Commit(3, 1, {{0, 1, 1}})
                         .Task(9, 0, 1, /*incarnation=*/2)
                         .Commit(10, 2, {})})
                .workers,
            (Workers{{0, {.applied = 2, .unfinished = 1, .absent = 7}}}));
}

TEST(GoodputTest, WhatALaterGenerationDidNotGoOnFromIsLost) {
  const CommitLog first = Log(1)
                              .Task(10, 0, 1)
                              .Commit(11, 1, {{0, 1, 0}})
                              .Task(11, 0, 2)
                              .End(13, 0, 2, proto::CANCELLED)
                              .Task(13, 0, 3)
                              .Commit(17, 2, {{0, 3, 0}})
                              .Task(17, 0, 4)
                              .Commit(25, 3, {});
  // As long as nothing has gone on from it, it may still.
  EXPECT_EQ(Measure({first}).workers,
            (Workers{{0, {.applied = 5, .cancelled = 2, .unfinished = 8}}}));
  const CommitLog second =
      Log(2, 1, 1).Task(3, 0, 1).Commit(4, 2, {{0, 1, 0}}).Task(4, 0, 2);
  const Goodput both = Measure({first, second});
  EXPECT_EQ(both.workers,
            (Workers{{0, {.applied = 1 + 1, .lost = 2 + 4 + 8}}}));
  EXPECT_EQ(both.generations, 2);
  // A third that begins anew rests on neither.
  EXPECT_EQ(Measure({first, second, Log(3, 2, 0).Task(5, 0, 1)}).workers,
            (Workers{{0, {.lost = 16}}}));
}

TEST(GoodputTest, ARunWithoutATaskHasNoTimeToDivide) {
  const Goodput none = Measure({Log()});
  EXPECT_EQ(none.share(), 0);
  EXPECT_EQ(Measure({}).share(), 0);
}

TEST(ReadRunGoodputTest, AFolderThatIsNoneAndOneWithoutALogAreNamed) {
  EXPECT_EQ(
      ReadRunGoodput("no/such").status(),
      absl::NotFoundError("no/such: is no folder, expected that of a run"));
  EXPECT_EQ(
      ReadRunGoodput(testing::TempDir()).status(),
      absl::NotFoundError(testing::TempDir() + "/commit_log: cannot be read"));
}

}  // namespace
}  // namespace sluice
