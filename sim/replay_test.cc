#include "sim/replay.h"

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/job/resolved_job.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ps_server/coordinator/log/commit_log_file.h"
#include "sim/simulated_run.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kJob[] = R"(
cluster { workers: 4 shards: 2 }
sync { policy: ASYNC k: 2 }
optimizer { learning_rate: 0.005 adam {} }
data {
  linear_regression { features: 40 train_samples: 1270 test_samples: 64 }
  batch_size: 32
}
model {
  layer { dense { units: 9 } }
  layer { batch_norm {} }
  layer { dense { units: 1 } }
}
stop { epochs: 2 }
output { digest_every_updates: 10 }
delays {
  compute { exponential { mean_ms: 50 } }
  latency { exponential { mean_ms: 20 } }
}
)";

// Simulates a run and returns its folder.
std::string Simulate(const std::vector<std::string>& overrides) {
  static int runs = 0;
  const std::string folder =
      absl::StrCat(testing::TempDir(), "/replay", runs++);
  std::filesystem::remove_all(folder);
  const auto job = ParseJob(kJob, "test", overrides);
  EXPECT_TRUE(job.ok()) << job.status();
  const auto run = SimulateRun(*job, {.run_dir = folder, .target = {}});
  EXPECT_TRUE(run.ok()) << run.status();
  return folder;
}

ReplayReport Replayed(const std::string& folder) {
  const auto report = ReplayRun(folder);
  EXPECT_TRUE(report.ok()) << report.status();
  return report.ok() ? *report : ReplayReport();
}

// Rewrites the run's log as a valid file, with each record as `change` leaves
// it. `change` returns false to leave a record out.
void Rewrite(const std::string& folder,
             const std::function<bool(proto::LogRecord*)>& change) {
  const std::string path = folder + "/commit_log";
  auto log = ReadCommitLog(path);
  ASSERT_TRUE(log.ok()) << log.status();
  std::vector<proto::LogRecord> records;
  for (proto::LogRecord& record : log->records) {
    if (change(&record)) records.push_back(std::move(record));
  }
  std::remove(path.c_str());
  auto writer = CommitLogWriter::Create(path, log->header);
  ASSERT_TRUE(writer.ok()) << writer.status();
  ASSERT_TRUE((*writer)->Append(records).ok());
}

// ---- The same bits ----

class SameBitsTest : public testing::TestWithParam<const char*> {};

TEST_P(SameBitsTest, ARunIsRecomputedFromItsLog) {
  const ReplayReport report = Replayed(Simulate({GetParam()}));
  EXPECT_TRUE(report.same());
  EXPECT_EQ(report.weights_sha256, report.recorded_sha256);
  EXPECT_EQ(report.recorded_sha256.size(), 64);
  EXPECT_GT(report.gradients, 20);
  EXPECT_GT(report.digests, 6);
}

INSTANTIATE_TEST_SUITE_P(
    Jobs, SameBitsTest,
    testing::Values("sync={ policy: SYNC }", "sync.policy=K_SYNC",
                    "sync.policy=K_BATCH_SYNC", "sync.policy=ASYNC",
                    "sync.policy=K_ASYNC", "sync.policy=K_BATCH_ASYNC",
                    "sync={ policy: ASYNC local_steps: 3 }",
                    "sync={ policy: ASYNC staleness { bound: 1 action: "
                    "DOWNWEIGHT } }",
                    "sync={ policy: K_BATCH_ASYNC k: 3 staleness { bound: 1 "
                    "action: DROP } }",
                    "sync={ policy: K_ASYNC k_schedule { adaptive { "
                    "smoothing_updates: 3 } } }"),
    [](const auto& info) { return absl::StrCat("Job", info.index); });

TEST(ReplayTest, ARunThatWasNotEvaluatedHasItsLossesAndDigestsCompared) {
  const ReplayReport report = Replayed(Simulate({"evaluation.enabled=false"}));
  EXPECT_TRUE(report.same());
  EXPECT_EQ(report.recorded_sha256, "");
  EXPECT_GT(report.digests, 6);
}

// ---- Several generations ----

// Turns the decisions after `version` into a second generation with `shards`
// shards, and lets the first generation go on differently: it commits all its
// later updates at rate 1.
void Split(const std::string& folder, int64_t version, int shards) {
  const auto job = LoadJob(folder + "/job.textproto",
                           {absl::StrCat("cluster.shards=", shards)});
  ASSERT_TRUE(job.ok()) << job.status();
  std::ofstream(folder + "/job.textproto") << FormatJob(job->job);
  auto log = ReadCommitLog(folder + "/commit_log");
  ASSERT_TRUE(log.ok()) << log.status();
  std::vector<proto::LogRecord> later;
  bool after = false;
  for (proto::LogRecord& record : log->records) {
    if (after && !record.has_digests()) later.push_back(record);
    after = after || record.commit().version() == version;
  }
  for (proto::LogRecord& record : later) {
    if (!record.has_commit()) continue;
    for (auto& entry : *record.mutable_commit()->mutable_entry()) {
      const int64_t base = entry.shard_base(0);
      entry.mutable_shard_base()->Resize(shards, base);
    }
  }
  Rewrite(folder, [&](proto::LogRecord* record) {
    if (record->commit().version() > version) {
      record->mutable_commit()->set_learning_rate(1);
    }
    return true;
  });
  proto::LogHeader header;
  header.set_generation(2);
  header.set_parent_generation(1);
  header.set_restored_version(version);
  header.set_job_fingerprint(job->fingerprint);
  auto writer = CommitLogWriter::Create(folder + "/commit_log-2", header);
  ASSERT_TRUE(writer.ok()) << writer.status();
  ASSERT_TRUE((*writer)->Append(later).ok());
}

TEST(ReplayTest, ARunThatWasResumedIsRecomputedAlongItsGenerations) {
  for (int shards : {2, 1, 3}) {
    const std::string folder = Simulate({"sync.policy=SYNC"});
    Split(folder, 13, shards);
    const ReplayReport report = Replayed(folder);
    EXPECT_TRUE(report.same()) << shards << " shards";
    EXPECT_EQ(report.weights_sha256, report.recorded_sha256);
    EXPECT_GT(report.version, Version(13));
  }
}

TEST(ReplayTest, AGradientFromBeforeItsGenerationIsRefused) {
  const std::string folder = Simulate({"sync.policy=SYNC"});
  Split(folder, 13, 2);
  const std::string path = folder + "/commit_log-2";
  auto log = ReadCommitLog(path);
  ASSERT_TRUE(log.ok()) << log.status();
  for (proto::LogRecord& record : log->records) {
    if (record.commit().version() != 14) continue;
    record.mutable_commit()->mutable_entry(0)->set_shard_base(0, 12);
  }
  std::remove(path.c_str());
  auto writer = CommitLogWriter::Create(path, log->header);
  ASSERT_TRUE((*writer)->Append(log->records).ok());
  EXPECT_THAT(std::string(ReplayRun(folder).status().message()),
              HasSubstr("computed at version 12, expected 13 to 13"));
}

// ---- Where it departs ----

TEST(ReplayTest, AnotherWeightIsFoundInTheNextDigestAndTheNextLosses) {
  const std::string folder = Simulate({});
  Rewrite(folder, [](proto::LogRecord* record) {
    if (record->commit().version() == 34) {
      record->mutable_commit()->mutable_entry(0)->set_weight(0.5);
    }
    return true;
  });
  const ReplayReport report = Replayed(folder);
  EXPECT_FALSE(report.same());
  EXPECT_NE(report.weights_sha256, report.recorded_sha256);
  ASSERT_TRUE(report.difference.version.has_value());
  EXPECT_EQ(*report.difference.version, Version(40));
  EXPECT_EQ(report.difference.agrees, Version(30));
  EXPECT_EQ(report.difference.tensor, "dense0.weight");
  // One of the next updates has a gradient computed at version 34 or later.
  ASSERT_TRUE(report.difference.update.has_value());
  EXPECT_GT(*report.difference.update, Version(34));
  EXPECT_LE(*report.difference.update, Version(40));
}

TEST(ReplayTest, AnotherMiniBatchIsFoundInItsUpdate) {
  const std::string folder = Simulate({});
  Rewrite(folder, [](proto::LogRecord* record) {
    if (record->commit().version() == 34) {
      record->mutable_commit()->mutable_entry(0)->set_first_batch(3);
    }
    return true;
  });
  const ReplayReport report = Replayed(folder);
  EXPECT_FALSE(report.same());
  EXPECT_EQ(report.difference.update, Version(34));
  EXPECT_THAT(report.difference.gradient, HasSubstr("mini-batch 3: loss"));
}

TEST(ReplayTest, AnotherRateIsFoundWithoutDigestsInTheFinalWeights) {
  const std::string folder = Simulate({"output.digest_every_updates=0"});
  int64_t last = 0;
  Rewrite(folder, [&](proto::LogRecord* record) {
    last = std::max(last, record->commit().version());
    return true;
  });
  Rewrite(folder, [&](proto::LogRecord* record) {
    if (record->has_commit() && record->commit().version() == last) {
      record->mutable_commit()->set_learning_rate(0.1);
    }
    return true;
  });
  const ReplayReport report = Replayed(folder);
  EXPECT_FALSE(report.same());
  EXPECT_EQ(report.digests, 0);
  EXPECT_FALSE(report.difference.update.has_value());
  EXPECT_EQ(report.difference.version, Version(last));
  EXPECT_EQ(report.difference.tensor, "dense0.weight");
}

// ---- What cannot be replayed ----

TEST(ReplayTest, AMissingVersionIsNamed) {
  const std::string folder = Simulate({});
  Rewrite(folder, [](proto::LogRecord* record) {
    return record->commit().version() != 7;
  });
  const auto report = ReplayRun(folder);
  EXPECT_TRUE(absl::IsDataLoss(report.status()));
  EXPECT_THAT(std::string(report.status().message()),
              HasSubstr("version 8 comes where 7 is expected"));
}

TEST(ReplayTest, ABaseThatWasNotThereYetIsNamed) {
  const std::string folder = Simulate({});
  Rewrite(folder, [](proto::LogRecord* record) {
    if (record->commit().version() == 9) {
      record->mutable_commit()->mutable_entry(0)->set_shard_base(1, 9);
    }
    return true;
  });
  const auto report = ReplayRun(folder);
  EXPECT_TRUE(absl::IsDataLoss(report.status()));
  EXPECT_THAT(std::string(report.status().message()),
              HasSubstr("version 9, gradient of worker "));
}

TEST(ReplayTest, ADamagedByteIsNamed) {
  const std::string folder = Simulate({});
  std::fstream file(folder + "/commit_log",
                    std::ios::binary | std::ios::in | std::ios::out);
  file.seekp(500);
  file.put('\x5a');
  file.close();
  const auto report = ReplayRun(folder);
  EXPECT_TRUE(absl::IsDataLoss(report.status())) << report.status();
  EXPECT_THAT(std::string(report.status().message()), HasSubstr("commit_log"));
}

TEST(ReplayTest, AnotherJobsLogIsRefused) {
  const std::string folder = Simulate({}), other = Simulate({"seed=9"});
  std::filesystem::copy_file(other + "/commit_log", folder + "/commit_log",
                             std::filesystem::copy_options::overwrite_existing);
  EXPECT_TRUE(absl::IsDataLoss(ReplayRun(folder).status()));
}

TEST(ReplayTest, WhatTheRunComputedWithMustBeHere) {
  const std::string folder = Simulate({});
  const auto rewrite = [&](proto::InstructionSet agreed) {
    bool first = true;
    Rewrite(folder, [&](proto::LogRecord* record) {
      if (std::exchange(first, false)) record->set_instruction_set(agreed);
      return true;
    });
  };
  ASSERT_EQ(setenv("ONEDNN_MAX_CPU_ISA", "AVX2", /*overwrite=*/1), 0);
  rewrite(proto::AVX512);
  const absl::Status wide = ReplayRun(folder).status();
  rewrite(proto::AVX2);
  const absl::Status narrow = ReplayRun(folder).status();
  unsetenv("ONEDNN_MAX_CPU_ISA");
  EXPECT_EQ(wide.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(wide.message(),
            "the run computed with AVX512, this machine has no wider "
            "instructions than AVX2");
  EXPECT_THAT(std::string(narrow.message()),
              Not(HasSubstr("the run computed with")));
}

TEST(ReplayTest, AFolderWithoutARunIsNamed) {
  const auto report = ReplayRun(testing::TempDir() + "/nothing");
  EXPECT_TRUE(absl::IsNotFound(report.status()));
  EXPECT_THAT(std::string(report.status().message()), HasSubstr("nothing"));
}

}  // namespace
}  // namespace sluice
