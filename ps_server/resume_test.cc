#include "ps_server/resume.h"

#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "common/files/atomic_file.h"
#include "common/files/file_operations.h"
#include "common/process/process_name.h"
#include "common/testing/faulty_reads.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ps_server/checkpoint/checkpoint.h"
#include "ps_server/checkpoint/manifest.h"
#include "ps_server/checkpoint/shard_file.h"
#include "ps_server/coordinator/log/commit_log_file.h"
#include "ps_server/coordinator/log/generations.h"
#include "ps_server/coordinator/report/snapshot_conversion.h"
#include "ps_server/shard/chunk_grid.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;

// 40 features, so that two shards have 16 and 25 weights; 10 mini-batches.
constexpr char kJob[] = R"(
  cluster { workers: 2 shards: 2 }
  sync { policy: SYNC gradients_per_update: 2 }
  optimizer { learning_rate: 0.1 sgd { momentum: 0.9 } }
  data { linear_regression { features: 40 train_samples: 100 } batch_size: 10 }
  model { layer { dense { units: 1 } } }
  stop { epochs: 1 }
)";

ResolvedJob Job(const std::vector<std::string>& overrides = {}) {
  auto job = ParseJob(kJob, "job", overrides);
  EXPECT_TRUE(job.ok()) << job.status();
  return *std::move(job);
}

class ResumeTest : public ::testing::Test {
 protected:
  ResumeTest() {
    std::filesystem::remove_all(run_);
    std::filesystem::create_directories(run_);
  }

  // A log of so many tasks without an end.
  void TakeGeneration(int64_t generation, int tasks) const {
    auto log = CommitLogWriter::Create(
        CommitLogPath(run_, Generation(generation)), {});
    proto::LogRecord task;
    task.mutable_task();
    for (int i = 0; i < tasks; ++i) ASSERT_TRUE((*log)->Append({task}).ok());
  }

  // A run of one generation with checkpoints of versions 2 and 4.
  void TakeGenerationIfNone() const {
    if (std::filesystem::exists(CommitLogPath(run_, Generation(1)))) return;
    TakeGeneration(1, 9);
    Store(Job(), {Generation(1), Version(2)}, At(2));
    Store(Job(), {Generation(1), Version(4)}, At(4));
  }

  // Float i of array a is 1000 a + i.
  void Store(const ResolvedJob& job, CheckpointId id,
             const TrainingSnapshot& snapshot) const {
    FileOperations files;
    ASSERT_TRUE(MakeCheckpointFolder(run_, id, &files).ok());
    proto::CheckpointManifest manifest;
    manifest.set_job(FormatJob(job.job));
    manifest.set_job_fingerprint(job.fingerprint);
    DescribeLayout(job.layout, &manifest);
    manifest.set_generation(id.generation.value());
    manifest.set_version(id.version.value());
    manifest.add_array("weights");
    manifest.add_array("velocity");
    manifest.set_chunk_floats(8);
    *manifest.mutable_state() = SnapshotToProto(snapshot);
    for (int s = 0; s < job.layout.shards(); ++s) {
      const ParameterRange range = job.layout.range(ShardId(s));
      const ChunkGrid grid(range.size(), 8);
      std::vector<std::vector<float>> floats(2);
      std::vector<CheckpointArray> arrays = {{"weights", {}}, {"velocity", {}}};
      for (int a = 0; a < 2; ++a) {
        for (int64_t i = range.begin; i < range.end; ++i) {
          floats[a].push_back(static_cast<float>(1000 * a + i));
        }
        for (int c = 0; c < grid.count(); ++c) {
          arrays[a].chunks.push_back(absl::MakeConstSpan(floats[a]).subspan(
              grid.begin(c), grid.size(c)));
        }
      }
      const auto file =
          WriteShardFile(CheckpointFolder(run_, id),
                         {.job_fingerprint = manifest.job_fingerprint(),
                          .layout_fingerprint = manifest.layout_fingerprint(),
                          .generation = id.generation,
                          .version = id.version,
                          .shard = ShardId(s),
                          .shards = job.layout.shards(),
                          .range = range,
                          .chunk_floats = 8},
                         arrays, &files);
      ASSERT_TRUE(file.ok()) << file.status();
      *manifest.add_file() = *file;
    }
    ASSERT_TRUE(
        WriteManifest(CheckpointFolder(run_, id), manifest, &files).ok());
  }

  // After `version` updates of two mini-batches each.
  static TrainingSnapshot At(int64_t version) {
    TrainingSnapshot snapshot;
    snapshot.schedule.low_water_mark = BlockId(2 * version);
    snapshot.round = BlockId(2 * version);
    snapshot.totals.counters.samples_applied = 20 * version;
    snapshot.totals.counters.applied = 2 * version;
    return snapshot;
  }

  std::string ErrorOf(const ResolvedJob& job) const {
    return FindResumption(job, run_).status().ToString();
  }

  const std::string run_ = absl::StrCat(::testing::TempDir(), "/resume");
};

TEST_F(ResumeTest, GoesOnFromTheNewestWholeCheckpointAndNamesTheOthers) {
  TakeGeneration(1, 9);
  Store(Job(), {Generation(1), Version(2)}, At(2));
  Store(Job(), {Generation(1), Version(4)}, At(4));
  const std::string newest =
      CheckpointFolder(run_, {Generation(1), Version(4)});
  std::filesystem::resize_file(newest + "/manifest", 40);
  const auto found = FindResumption(Job(), run_);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->point.generation, Generation(1));
  EXPECT_EQ(found->point.version, Version(2));
  EXPECT_EQ(found->point.snapshot.totals.counters.samples_applied, 40);
  EXPECT_EQ(found->generation, Generation(2));
  ASSERT_EQ(found->passed_over.size(), 1);
  EXPECT_THAT(std::string(found->passed_over[0].message()),
              HasSubstr(newest + "/manifest: has 12 bytes of contents"));
}

TEST_F(ResumeTest, TheGenerationIsAboveAllThatWereTakenAndTheirTasksAreLost) {
  TakeGeneration(1, 9);
  TakeGeneration(2, 7);
  TrainingSnapshot snapshot = At(2);
  snapshot.totals.counters.cancelled = 1;
  snapshot.totals.counters.lost = 3;
  Store(Job(), {Generation(1), Version(2)}, snapshot);
  const auto found = FindResumption(Job(), run_);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->generation, Generation(3));
  // 16 tasks, of which 4 were applied and 1 cancelled.
  EXPECT_EQ(found->point.snapshot.totals.counters.lost, 11);
  EXPECT_EQ(found->lost, 8);
}

TEST_F(ResumeTest, WithoutARunOrAWholeCheckpointItSaysWhatThereIs) {
  EXPECT_EQ(ErrorOf(Job()),
            absl::StrCat("NOT_FOUND: ", run_,
                         ": has no commit_log, expected the folder of a run"));
  TakeGeneration(1, 1);
  EXPECT_EQ(ErrorOf(Job()),
            absl::StrCat("NOT_FOUND: ", run_,
                         ": has no whole checkpoint to go on from"));
  Store(Job(), {Generation(1), Version(2)}, At(2));
  const std::string manifest =
      CheckpointFolder(run_, {Generation(1), Version(2)}) + "/manifest";
  std::filesystem::remove(manifest);
  EXPECT_THAT(ErrorOf(Job()), HasSubstr(manifest));
}

TEST_F(ResumeTest, TheJobMayDifferInWhatChangesNoBitOnly) {
  TakeGeneration(1, 4);
  Store(Job(), {Generation(1), Version(2)}, At(2));
  const auto other = FindResumption(
      Job({"cluster.workers=3", "cluster.shards=1", "stop.epochs=4",
           "stop.seconds=9", "limits.chunk_bytes=4096", "name=other",
           "limits.lease_s=9", "cluster.coordinator=a:1"}),
      run_);
  EXPECT_TRUE(other.ok()) << other.status();
  EXPECT_EQ(ErrorOf(Job({"optimizer.learning_rate=0.2"})),
            absl::StrCat("FAILED_PRECONDITION: ", run_,
                         ": the run has another job: optimizer.learning_rate: "
                         "0.2 here, 0.1 there"));
  EXPECT_THAT(ErrorOf(Job({"sync.gradients_per_update=3"})),
              HasSubstr("sync.gradients_per_update: 3 here, 2 there"));
  EXPECT_THAT(ErrorOf(Job({"seed=2"})), HasSubstr("seed: 2 here, 1 there"));
  EXPECT_THAT(ErrorOf(Job({"optimizer.sgd.momentum=0"})),
              HasSubstr("optimizer.sgd.momentum: 0 here, 0.9 there"));
}

TEST_F(ResumeTest, PartitionsKeepTheirWorkers) {
  const std::vector<std::string> partitions = {"data.sharding=STATIC"};
  TakeGeneration(1, 4);
  Store(Job(partitions), {Generation(1), Version(2)}, At(2));
  EXPECT_TRUE(FindResumption(Job(partitions), run_).ok());
  EXPECT_THAT(ErrorOf(Job({"data.sharding=STATIC", "cluster.workers=3",
                           "sync.gradients_per_update=3"})),
              HasSubstr("cluster.workers: 3 here, 2 there"));
}

TEST_F(ResumeTest, ARunThatReachedItsEndSaysSo) {
  TakeGeneration(1, 10);
  Store(Job(), {Generation(1), Version(5)}, At(5));
  EXPECT_EQ(ErrorOf(Job()),
            absl::StrCat("FAILED_PRECONDITION: ", run_,
                         ": version 5 is the run's end: 1 epochs; a larger "
                         "stop.epochs would let it go on"));
  EXPECT_TRUE(FindResumption(Job({"stop.epochs=2"}), run_).ok());
}

TEST_F(ResumeTest, ALongerRunLeavesOutNoMiniBatchOfAnUnfinishedTask) {
  const auto with = [](const std::string& epochs) {
    return Job(
        {"sync={policy: ASYNC local_steps: 3}", "stop.epochs=" + epochs});
  };
  TrainingSnapshot snapshot = At(4);
  snapshot.round = {};
  TakeGeneration(1, 4);
  // Three tasks of three mini-batches, and the fourth of one.
  snapshot.schedule = {BlockId(4), {}};
  Store(with("1"), {Generation(1), Version(4)}, snapshot);
  EXPECT_EQ(ErrorOf(with("2")),
            absl::StrCat("FAILED_PRECONDITION: ", run_,
                         ": version 4 has the last task of a run of 1 epochs, "
                         "with 1 mini-batches of sync.local_steps: 3; a longer "
                         "run would leave out 2 that follow. A new run can "
                         "begin from its weights (model.init_from)"));
  EXPECT_THAT(ErrorOf(with("1")), HasSubstr("is the run's end"));
  snapshot.schedule = {BlockId(2), {BlockId(3)}};
  Store(with("1"), {Generation(1), Version(5)}, snapshot);
  EXPECT_THAT(ErrorOf(with("2")), HasSubstr("would leave out 2"));
  EXPECT_TRUE(FindResumption(with("1"), run_).ok());
  // The last task is still to be computed.
  snapshot.schedule = {BlockId(2), {}};
  Store(with("1"), {Generation(1), Version(6)}, snapshot);
  EXPECT_TRUE(FindResumption(with("2"), run_).ok());
  // It was whole.
  snapshot.schedule = {BlockId(3), {}};
  Store(with("0.9"), {Generation(1), Version(7)}, snapshot);
  EXPECT_TRUE(FindResumption(with("2"), run_).ok());
}

TEST_F(ResumeTest, WhatASummarySaysToHaveReachedItsEndIsNotBegunAgain) {
  TakeGeneration(1, 9);
  Store(Job(), {Generation(1), Version(4)}, At(4));
  const auto write = [&](const std::string& name, const std::string& text) {
    ASSERT_TRUE(WriteFileAtomically(run_ + "/" + name, {text}).ok());
  };
  const std::string text = absl::StrCat(
      run_,
      ": the run has reached its end: test accuracy 0.9; a larger `stop` "
      "would let it go on");
  write(
      "summary.json",
      R"({"reason": "test accuracy 0.9", "reached": "epochs: 1", "version": 4})");
  EXPECT_EQ(FindResumption(Job(), run_).status(),
            absl::FailedPreconditionError(text));
  EXPECT_EQ(FindRecovery(Job(), run_).status(), absl::OutOfRangeError(text));
  EXPECT_TRUE(FindResumption(Job({"stop.epochs=2"}), run_).ok());
  for (const char* other : {
           R"({"reason": "stopped by SIGINT", "reached": null, "version": 4})",
           R"({"reason": "of before there was such a thing"})",
           R"({"reached": "epochs: 1"})",
           R"([])",
           "damaged",
       }) {
    write("summary.json", other);
    EXPECT_TRUE(FindResumption(Job(), run_).ok()) << other;
    EXPECT_TRUE(FindRecovery(Job(), run_).ok()) << other;
  }
  // It ended beyond the checkpoint: whoever resumes it is told so elsewhere.
  write("summary.json",
        R"({"reason": "", "reached": "epochs: 1", "version": 5})");
  EXPECT_TRUE(FindResumption(Job(), run_).ok());
  EXPECT_TRUE(absl::IsOutOfRange(FindRecovery(Job(), run_).status()));
}

TEST_F(ResumeTest, ARunThatWasStoppedIsNotBegunAgainBeforeTheRestHasHeard) {
  TakeGeneration(1, 9);
  Store(Job(), {Generation(1), Version(4)}, At(4));
  const auto write = [&](const std::string& name, const std::string& text) {
    ASSERT_TRUE(WriteFileAtomically(run_ + "/" + name, {text}).ok());
  };
  write(kFarewell, "");
  EXPECT_TRUE(FindRecovery(Job(), run_).ok()) << "none has heard of it";
  write("summary.json", R"({"reached": null, "version": 9})");
  EXPECT_EQ(FindRecovery(Job(), run_).status(),
            absl::OutOfRangeError(run_ + ": the run has been stopped"));
  EXPECT_TRUE(FindResumption(Job(), run_).ok()) << "somebody wants it to go on";
}

// ---- Recovery by itself ----

TEST_F(ResumeTest, WithoutAWholeCheckpointARecoveryGoesBackToVersionZero) {
  TakeGeneration(1, 9);
  Store(Job(), {Generation(1), Version(2)}, At(2));
  const std::string manifest =
      CheckpointFolder(run_, {Generation(1), Version(2)}) + "/manifest";
  std::filesystem::remove(manifest);
  const auto found = FindRecovery(Job(), run_);
  ASSERT_TRUE(found.ok()) << found.status();
  ASSERT_TRUE(found->has_value());
  EXPECT_EQ((*found)->generation, Generation(2));
  EXPECT_EQ((*found)->point.generation, Generation(0));
  EXPECT_EQ((*found)->point.version, Version(0));
  EXPECT_EQ((*found)->lost, 9);
  EXPECT_EQ((*found)->point.snapshot.totals.counters.lost, 9);
  ASSERT_EQ((*found)->passed_over.size(), 1);
  EXPECT_THAT(std::string((*found)->passed_over[0].message()),
              HasSubstr(manifest));
}

TEST_F(ResumeTest, WhereNoRunHasBeenThereIsNothingToRecover) {
  const auto found = FindRecovery(Job(), run_);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_FALSE(found->has_value());
}

TEST_F(ResumeTest, ARecoveryTakesTheNewestWholeCheckpointAlsoAtTheRunsEnd) {
  TakeGeneration(1, 10);
  Store(Job(), {Generation(1), Version(2)}, At(2));
  Store(Job(), {Generation(1), Version(5)}, At(5));
  EXPECT_THAT(ErrorOf(Job()), HasSubstr("is the run's end"));
  const auto found = FindRecovery(Job(), run_);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ((*found)->point.version, Version(5));
}

TEST_F(ResumeTest, AtAnyReadThatFailsNothingIsPassedOverAndNoneIsLost) {
  for (const auto fault :
       {FaultyReads::Fault::kFails, FaultyReads::Fault::kStale}) {
    TakeGenerationIfNone();
    int failures = 0;
    for (int operation = 0;; ++operation) {
      SCOPED_TRACE(operation);
      FaultyReads disk(fault, operation, 1);
      const auto found = FindRecovery(Job(), run_, {.id = "r"}, &disk);
      if (disk.operations() <= operation) break;
      if (found.ok()) {
        EXPECT_EQ((*found)->point.version, Version(4));
        EXPECT_TRUE((*found)->passed_over.empty());
      } else {
        ++failures;
        EXPECT_TRUE(absl::IsUnavailable(found.status())) << found.status();
        EXPECT_THAT(std::string(found.status().message()),
                    HasSubstr("cannot be read"));
      }
      // The next try finds it.
      EXPECT_EQ((*FindRecovery(Job(), run_, {.id = "r"}, &disk))->point.version,
                Version(4));
    }
    EXPECT_GT(failures, fault == FaultyReads::Fault::kFails ? 15 : 3);
  }
}

TEST_F(ResumeTest, WhatWasWholeBeforeAndIsNotListedCannotBeRead) {
  TakeGeneration(1, 9);
  Store(Job(), {Generation(1), Version(2)}, At(2));
  const auto error = [&](KnownRun known) {
    return FindRecovery(Job(), run_, known).status().ToString();
  };
  EXPECT_EQ(error({.stored = {Generation(1), Version(2)}}), "OK");
  const std::string gone = CheckpointFolder(run_, {Generation(1), Version(4)});
  EXPECT_EQ(error({.stored = {Generation(1), Version(4)}}),
            absl::StrCat("UNAVAILABLE: ", gone,
                         ": is not there, expected this checkpoint or a newer "
                         "one: it was whole before"));
  // It is damaged by now: that was read.
  std::filesystem::create_directories(gone);
  EXPECT_EQ(error({.stored = {Generation(1), Version(4)}}), "OK");
  std::filesystem::rename(run_ + "/checkpoints", run_ + "/elsewhere");
  EXPECT_THAT(error({.stored = {Generation(1), Version(2)}}),
              HasSubstr("UNAVAILABLE"));
}

// A process whose generation is over goes on, unless another has done so.
TEST_F(ResumeTest, ARunThatAnotherProcessHasTakenOnIsNotTakenBack) {
  TakeGeneration(1, 9);
  TakeGeneration(2, 9);
  Store(Job(), {Generation(1), Version(2)}, At(2));
  EXPECT_TRUE(FindRecovery(Job(), run_, {.generation = Generation(2)}).ok());
  EXPECT_EQ(FindRecovery(Job(), run_, {.generation = Generation(1)})
                .status()
                .ToString(),
            absl::StrCat("PERMISSION_DENIED: ", run_,
                         ": another process has taken generation 2 of the "
                         "run: this one, which had generation 1, is over"));
}

TEST_F(ResumeTest, ARunThatWentOnFromACheckpointDoesNotBeginAnewWithoutAny) {
  TakeGeneration(1, 9);
  proto::LogHeader header;
  header.set_generation(2);
  header.set_parent_generation(1);
  header.set_restored_version(2);
  ASSERT_TRUE(
      CommitLogWriter::Create(CommitLogPath(run_, Generation(2)), header).ok());
  EXPECT_EQ(FindRecovery(Job(), run_).status().ToString(),
            absl::StrCat("UNAVAILABLE: ", run_,
                         "/checkpoints: holds none, expected one: the run has "
                         "gone on from a checkpoint before"));
}

TEST_F(ResumeTest, AKnownRunBeginsInNoEmptyFolderAndGoesOnInNoOthers) {
  EXPECT_EQ(FindRecovery(Job(), run_, {.id = "mine"}).status().ToString(),
            absl::StrCat("UNAVAILABLE: ", run_,
                         ": holds no commit_log, expected that of run mine: is "
                         "the folder there, and mounted?"));
  EXPECT_FALSE(FindRecovery(Job(), run_)->has_value());
  proto::LogHeader header;
  header.set_generation(1);
  header.set_run_id("theirs");
  ASSERT_TRUE(
      CommitLogWriter::Create(CommitLogPath(run_, Generation(1)), header).ok());
  EXPECT_EQ(FindRecovery(Job(), run_, {.id = "mine"}).status().ToString(),
            absl::StrCat("FAILED_PRECONDITION: ", run_,
                         ": holds run theirs, expected run mine"));
  const auto found = FindRecovery(Job(), run_, {.id = "theirs"});
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ((*found)->run_id, "theirs");
}

TEST_F(ResumeTest, ItSaysWhichThereAreAndWhichAreDamaged) {
  TakeGeneration(1, 9);
  const CheckpointId older{Generation(1), Version(2)};
  const CheckpointId newer{Generation(1), Version(4)};
  Store(Job(), older, At(2));
  std::filesystem::create_directories(CheckpointFolder(run_, newer));
  const auto found = FindRecovery(Job(), run_);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ((*found)->there, (std::vector<CheckpointId>{older, newer}));
  EXPECT_EQ((*found)->damaged, std::vector<CheckpointId>{newer});
}

TEST_F(ResumeTest, ARecoveryIsOfTheSameJob) {
  const auto error = [&] {
    return FindRecovery(Job({"seed=2"}), run_).status().ToString();
  };
  const std::string another =
      absl::StrCat("FAILED_PRECONDITION: ", run_,
                   ": the run has another job: seed: 2 here, 1 there");
  TakeGeneration(1, 4);
  EXPECT_EQ(error(), "OK") << "there is nothing to compare with";
  std::ofstream(run_ + "/job.textproto") << FormatJob(Job().job);
  EXPECT_EQ(error(), another);
  std::filesystem::remove(run_ + "/job.textproto");
  Store(Job(), {Generation(1), Version(2)}, At(2));
  EXPECT_EQ(error(), another);
}

TEST_F(ResumeTest, AShardReadsItsRangeWhoeverWroteIt) {
  Store(Job(), {Generation(1), Version(2)}, At(2));
  const Restore restore{Generation(2), Version(2), "", Generation(1)};
  for (int shards : {1, 2, 3}) {
    const ResolvedJob job = Job({absl::StrCat("cluster.shards=", shards)});
    for (int s = 0; s < shards; ++s) {
      const ParameterRange range = job.layout.range(ShardId(s));
      const auto arrays = ReadStoredVersion(job, run_, restore, range);
      ASSERT_TRUE(arrays.ok()) << arrays.status();
      ASSERT_EQ(arrays->size(), 2);
      for (int a = 0; a < 2; ++a) {
        ASSERT_EQ((*arrays)[a].size(), range.size());
        EXPECT_EQ((*arrays)[a].front(), 1000 * a + range.begin);
        EXPECT_EQ((*arrays)[a].back(), 1000 * a + range.end - 1);
      }
    }
  }
}

TEST_F(ResumeTest, WhereShardsHaveDisksOfTheirOwnTheManifestGoesAlong) {
  TakeGeneration(1, 4);
  const CheckpointId id{Generation(1), Version(2)};
  Store(Job(), id, At(2));
  EXPECT_EQ((*FindRecovery(Job(), run_))->point.manifest, "");
  // Both files are moved; the second one is there, the first one is not.
  const std::string folder = CheckpointFolder(run_, id);
  proto::CheckpointManifest manifest = *ReadManifest(folder);
  for (proto::CheckpointFile& file : *manifest.mutable_file()) {
    file.set_host("hostB");
    file.set_path(run_ + "/moved-" + file.name());
    std::filesystem::rename(absl::StrCat(folder, "/", file.name()),
                            file.path());
  }
  std::filesystem::remove(manifest.file(0).path());
  FileOperations files;
  ASSERT_TRUE(WriteManifest(folder, manifest, &files).ok());
  const auto found = FindRecovery(Job(), run_);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ((*found)->point.version, id.version);
  // Which grows where one partition is far ahead of another.
  EXPECT_FALSE(
      DecodeManifest("the message", (*found)->point.manifest)->has_state());
  Restore restore{Generation(2), id.version, "", id.generation};
  restore.manifest = (*found)->point.manifest;
  // A shard without the run folder reads what it holds, and no more.
  const auto read = [&](int file) {
    return ReadStoredVersion(
        Job(), "/nowhere", restore,
        {manifest.file(file).begin(), manifest.file(file).end()});
  };
  ASSERT_TRUE(read(1).ok()) << read(1).status();
  EXPECT_EQ((*read(1))[0].front(), manifest.file(1).begin());
  EXPECT_EQ(read(0).status().ToString(),
            absl::StrCat(
                "NOT_FOUND: hostB:", manifest.file(0).path(),
                ": is not on this host (", HostName(),
                "), expected shard 0's part of checkpoint 1-2, which is on a "
                "disk of that shard's own"));
}

TEST_F(ResumeTest, AnotherModelOrOptimizerIsRefusedWithBoth) {
  Store(Job(), {Generation(1), Version(2)}, At(2));
  const std::string folder =
      CheckpointFolder(run_, {Generation(1), Version(2)});
  const Restore restore{Generation(2), Version(2), "", Generation(1)};
  const auto error = [&](const std::string& override) {
    const ResolvedJob job = Job({override});
    return ReadStoredVersion(job, run_, restore, {0, 1}).status().ToString();
  };
  EXPECT_EQ(error("data.linear_regression.features=41"),
            absl::StrCat("FAILED_PRECONDITION: ", folder,
                         ": tensor 0 is dense0.weight (1, 40), the job's is "
                         "dense0.weight (1, 41)"));
  EXPECT_EQ(error("optimizer.adam={}"),
            absl::StrCat("FAILED_PRECONDITION: ", folder,
                         ": holds weights, velocity; the job's optimizer needs "
                         "weights, mean, square"));
}

}  // namespace
}  // namespace sluice
