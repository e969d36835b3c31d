#include "ps_server/coordinator/log/ledger.h"

#include <filesystem>
#include <fstream>
#include <initializer_list>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ps_server/coordinator/log/generations.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr int kCancelled = 2;
constexpr int kDropped = 3;
constexpr int kRejected = 4;
constexpr int kLost = 5;

// One gradient of worker 0: task `sequence` for mini-batch `batch`.
struct Gradient {
  int64_t sequence;
  int64_t batch;
};

// The log of one generation, written by hand. Every mini-batch has 10 samples.
class Log {
 public:
  explicit Log(int64_t generation, int64_t parent = 0, int64_t restored = 0) {
    log_.header.set_generation(generation);
    log_.header.set_parent_generation(parent);
    log_.header.set_restored_version(restored);
  }
  Log& Issue(Gradient gradient) {
    proto::LogTask* task = log_.records.emplace_back().mutable_task();
    task->set_incarnation(1);
    task->set_sequence(gradient.sequence);
    task->set_first_batch(gradient.batch);
    task->set_batches(1);
    return *this;
  }
  Log& End(int64_t sequence, int outcome) {
    proto::LogEnd* end = log_.records.emplace_back().mutable_end();
    end->set_incarnation(1);
    end->set_sequence(sequence);
    end->set_outcome(outcome);
    return *this;
  }
  Log& Commit(int64_t version, std::initializer_list<Gradient> gradients) {
    proto::LogCommit* commit = log_.records.emplace_back().mutable_commit();
    commit->set_version(version);
    for (const Gradient& gradient : gradients) {
      proto::LogEntry* entry = commit->add_entry();
      entry->set_incarnation(1);
      entry->set_sequence(gradient.sequence);
      entry->set_first_batch(gradient.batch);
      entry->set_batches(1);
      entry->set_samples(10);
    }
    return *this;
  }
  // Versions `from` to `to`, each of one gradient: version v takes mini-batch
  // v - 1 from task v.
  Log& Train(int64_t from, int64_t to) {
    for (int64_t version = from; version <= to; ++version) {
      const Gradient gradient{version, version - 1};
      Issue(gradient).Commit(version, {gradient});
    }
    return *this;
  }
  operator CommitLog() const { return log_; }

 private:
  CommitLog log_;
};

Ledger Balance(const std::vector<CommitLog>& logs, int64_t mini_batches) {
  return BalanceLogs(logs, {.ended = true, .mini_batches = mini_batches});
}

TEST(LedgerTest, EveryTaskIsCountedOnceByHowItEnded) {
  const Ledger ledger = Balance({Log(1)
                                     .Issue({1, 0})
                                     .Issue({2, 1})
                                     .Issue({3, 2})
                                     .Commit(1, {{1, 0}, {3, 2}})
                                     .End(2, kCancelled)
                                     .Issue({4, 1})
                                     .End(4, kRejected)
                                     .Issue({5, 1})
                                     .End(5, kDropped)
                                     .Issue({6, 1})
                                     .End(6, kLost)
                                     .Issue({7, 1})
                                     .Commit(2, {{7, 1}})},
                                3);
  EXPECT_THAT(ledger.errors, IsEmpty());
  EXPECT_EQ(ledger.version, Version(2));
  EXPECT_EQ(ledger.mini_batches, 3);
  EXPECT_EQ(ledger.samples, 30);
  const GenerationLedger total = ledger.Total();
  EXPECT_EQ(total.tasks, 7);
  EXPECT_EQ(total.applied, 3);
  EXPECT_EQ(total.cancelled, 1);
  EXPECT_EQ(total.dropped, 1);
  EXPECT_EQ(total.rejected, 1);
  EXPECT_EQ(total.lost, 1);
}

TEST(LedgerTest, WhatALaterGenerationDidNotGoOnFromIsLost) {
  // Generation 1 made 5 versions and had two tasks open or cancelled; 2 went on
  // from 3 and made 4; 3 went on from 3 as well, to 6.
  const Ledger ledger = Balance(
      {Log(1).Train(1, 5).Issue({6, 5}).Issue({7, 6}).End(7, kCancelled),
       Log(2, 1, 3).Train(4, 4).Issue({5, 4}), Log(3, 1, 3).Train(4, 6)},
      6);
  EXPECT_THAT(ledger.errors, IsEmpty());
  ASSERT_THAT(ledger.generations, SizeIs(3));
  const GenerationLedger& first = ledger.generations[0];
  EXPECT_EQ(first.kept, Version(3));
  EXPECT_EQ(first.updates_lost(), 2);
  EXPECT_EQ(first.tasks, 7);
  EXPECT_EQ(first.applied, 3);
  EXPECT_EQ(first.cancelled, 0);
  EXPECT_EQ(first.lost, 4);
  const GenerationLedger& second = ledger.generations[1];
  EXPECT_EQ(second.updates_lost(), 1);
  EXPECT_EQ(second.applied, 0);
  EXPECT_EQ(second.lost, 2);
  EXPECT_EQ(ledger.Total().applied, 6);
  EXPECT_EQ(ledger.Total().lost, 6);
  EXPECT_EQ(ledger.version, Version(6));
  EXPECT_EQ(ledger.samples, 60);
}

TEST(LedgerTest, AGenerationMayBeginAgainWithTheInitialWeights) {
  const Ledger ledger = Balance({Log(1).Train(1, 2), Log(2).Train(1, 3)}, 3);
  EXPECT_THAT(ledger.errors, IsEmpty());
  EXPECT_EQ(ledger.generations[0].lost, 2);
  EXPECT_EQ(ledger.Total().applied, 3);
}

TEST(LedgerTest, ARunThatHasNotEndedMayHaveOpenTasks) {
  const CommitLog log = Log(1).Issue({1, 0});
  EXPECT_TRUE(BalanceLogs({log}, {}).exact());
  EXPECT_THAT(
      BalanceLogs({log}, {.ended = true}).errors,
      ElementsAre("generation 1: task w0/i1/s1, mini-batch 0: has not ended"));
}

TEST(LedgerTest, ATaskThatEndsTwiceIsAnError) {
  EXPECT_THAT(Balance({Log(1).Train(1, 1).End(1, kCancelled)}, 1).errors,
              ElementsAre("generation 1: task w0/i1/s1, mini-batch 0: ends as "
                          "APPLIED and again as CANCELLED"));
}

TEST(LedgerTest, ATaskThatWasNotIssuedIsAnError) {
  EXPECT_THAT(Balance({Log(1).Commit(1, {{1, 0}})}, 1).errors,
              ElementsAre("generation 1: task w0/i1/s1 ends as APPLIED and was "
                          "not issued"));
}

TEST(LedgerTest, ATaskThatIsIssuedTwiceIsAnError) {
  EXPECT_THAT(
      Balance({Log(1).Issue({1, 0}).End(1, kLost).Issue({1, 0})}, 0).errors,
      ElementsAre("generation 1: task w0/i1/s1 is issued twice"));
}

TEST(LedgerTest, AGradientOfAnotherMiniBatchThanTheTasksIsAnError) {
  EXPECT_THAT(Balance({Log(1).Issue({1, 1}).Commit(1, {{1, 0}})}, 1).errors,
              ElementsAre("generation 1: task w0/i1/s1 is applied as "
                          "mini-batch 0 + 1, issued as 1 + 1"));
}

TEST(LedgerTest, AMiniBatchWithTwoLiveTasksIsAnError) {
  EXPECT_THAT(Balance({Log(1)
                           .Issue({1, 0})
                           .Issue({2, 0})
                           .End(1, kCancelled)
                           .Commit(1, {{2, 0}})},
                      1)
                  .errors,
              ElementsAre("generation 1: mini-batch 0 is given to task "
                          "w0/i1/s2 while task w0/i1/s1 has it"));
}

TEST(LedgerTest, AMiniBatchInTwoUpdatesOfOneLineageIsAnError) {
  const CommitLog first = Log(1).Train(1, 3);
  const CommitLog repeats = Log(2, 1, 2).Issue({1, 0}).Commit(3, {{1, 0}});
  EXPECT_THAT(Balance({first, repeats}, 2).errors,
              ElementsAre("generation 2: mini-batch 0 is in the updates 1 and "
                          "3"));
  // In updates of which one was lost it may be.
  EXPECT_THAT(
      Balance({first, Log(2, 1, 2).Issue({1, 2}).Commit(3, {{1, 2}})}, 3)
          .errors,
      IsEmpty());
}

TEST(LedgerTest, AnErrorInWhatWasLostIsAnErrorToo) {
  EXPECT_THAT(
      Balance({Log(1).Train(1, 3).Issue({9, 0}).Commit(4, {{9, 0}}),
               Log(2, 1, 3).Train(4, 4)},
              4)
          .errors,
      ElementsAre("generation 1: mini-batch 0 is in the updates 1 and 4"));
}

TEST(LedgerTest, AVersionThatIsLeftOutIsAnError) {
  EXPECT_THAT(Balance({Log(1)
                           .Issue({1, 0})
                           .Commit(1, {{1, 0}})
                           .Issue({2, 1})
                           .Commit(3, {{2, 1}})},
                      2)
                  .errors,
              ElementsAre("generation 1: version 3 comes where 2 is expected"));
}

TEST(LedgerTest, MiniBatchesInNoUpdateAreAnErrorUnlessTheyWereLeftOut) {
  const CommitLog log = Log(1).Train(1, 2);
  EXPECT_THAT(Balance({log}, 4).errors,
              ElementsAre("2 of 4 mini-batches are in no update, expected 0; "
                          "the first: 2 3"));
  EXPECT_THAT(BalanceLogs({log}, {.mini_batches = 4, .left_out = 2}).errors,
              IsEmpty());
  EXPECT_THAT(Balance({log}, 1).errors,
              ElementsAre("1 mini-batches beyond the run's 1 are in updates"));
}

TEST(LedgerTest, AGenerationGoesOnFromAVersionThatTheOtherMade) {
  const CommitLog first = Log(1).Train(1, 2);
  EXPECT_THAT(BalanceLogs({first, Log(2, 1, 3).Train(4, 4)}, {}).errors,
              ElementsAre("generation 2 goes on from version 3 of generation "
                          "1, which made 1 to 2"));
  EXPECT_THAT(BalanceLogs({first, Log(3, 2, 1).Train(2, 2)}, {}).errors,
              ElementsAre("generation 3 goes on from generation 2, which is "
                          "not there"));
}

TEST(LedgerTest, SoManyErrorsAreCounted) {
  Log log(1);
  for (int i = 1; i <= 100; ++i) log.End(i, kCancelled);
  const Ledger ledger = BalanceLogs({log}, {});
  EXPECT_THAT(ledger.errors, SizeIs(kMostErrors));
  EXPECT_EQ(ledger.errors.back(), "and 81 more");
}

TEST(LedgerTest, AFolderIsReadWithGenerationsThatNeverBegan) {
  const std::string run = absl::StrCat(::testing::TempDir(), "/ledger");
  std::filesystem::remove_all(run);
  std::filesystem::create_directories(run);
  EXPECT_EQ(ReadLedger(run, {}).status().code(), absl::StatusCode::kNotFound);
  for (const CommitLog& log :
       {CommitLog(Log(1).Train(1, 2)), CommitLog(Log(3, 1, 1).Train(2, 3))}) {
    auto writer = CommitLogWriter::Create(
        CommitLogPath(run, Generation(log.header.generation())), log.header);
    ASSERT_TRUE(writer.ok() && (*writer)->Append(log.records).ok());
  }
  std::ofstream(CommitLogPath(run, Generation(2)));
  const absl::StatusOr<Ledger> ledger =
      ReadLedger(run, {.ended = true, .mini_batches = 3});
  ASSERT_TRUE(ledger.ok()) << ledger.status();
  EXPECT_THAT(ledger->errors, IsEmpty());
  EXPECT_THAT(ledger->never_began, ElementsAre(Generation(2)));
  EXPECT_EQ(ledger->Total().lost, 1);
}

TEST(LedgerTest, ALogThatLostItsTailIsBalancedAndTheTailIsSaid) {
  const std::string run = absl::StrCat(::testing::TempDir(), "/torn_ledger");
  std::filesystem::remove_all(run);
  std::filesystem::create_directories(run);
  const CommitLog log(Log(1).Train(1, 3));
  const std::string path = CommitLogPath(run, Generation(1));
  {
    auto writer = CommitLogWriter::Create(path, log.header);
    ASSERT_TRUE(writer.ok() && (*writer)->Append(log.records).ok());
  }
  // The machine lost power: half of the last record is there, then zeros. And
  // again, when the next generation had hardly been taken.
  const auto size = static_cast<int64_t>(std::filesystem::file_size(path));
  std::filesystem::resize_file(path, size - 5);
  std::filesystem::resize_file(path, size + 1000);
  std::ofstream(CommitLogPath(run, Generation(2))) << std::string(64, '\0');
  const absl::StatusOr<Ledger> ledger = ReadLedger(run, {});
  ASSERT_TRUE(ledger.ok()) << ledger.status();
  EXPECT_THAT(ledger->errors, IsEmpty());
  EXPECT_EQ(ledger->version, Version(2));
  EXPECT_THAT(ledger->never_began, ElementsAre(Generation(2)));
  ASSERT_THAT(ledger->torn, SizeIs(1));
  EXPECT_EQ(ledger->torn[0].path, path);
  EXPECT_EQ(ledger->torn[0].offset + ledger->torn[0].bytes, size + 1000);
}

}  // namespace
}  // namespace sluice
