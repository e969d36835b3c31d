#include "cli/plot/recorded_run.h"

#include <filesystem>
#include <fstream>

#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr char kProgress[] = R"({"seconds":1.5,"version":20,"loss":0.75,"k":3})"
                             "\n";
constexpr char kEvaluation[] =
    R"({"seconds":2.5,"version":30,"loss":0.5,)"
    R"("test_version":25,"test_loss":0.625,"test_accuracy":0.875})"
    "\n";

class RecordedRunTest : public testing::Test {
 protected:
  RecordedRunTest()
      : folder_(testing::TempDir() + "/" +
                testing::UnitTest::GetInstance()->current_test_info()->name()) {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directory(folder_);
  }
  void Write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ + "/" + name, std::ios::binary) << text;
  }
  void WriteLog() const {
    proto::LogHeader header;
    header.set_generation(1);
    auto log = CommitLogWriter::Create(folder_ + "/commit_log", header);
    ASSERT_TRUE(log.ok()) << log.status();
    proto::LogRecord record;
    record.mutable_task();
    ASSERT_TRUE((*log)->Append({record}).ok());
  }
  // All notes, and the run.
  std::string Notes(RecordedRun* read = nullptr) const {
    const auto run = ReadRecordedRun(folder_);
    EXPECT_TRUE(run.ok()) << run.status();
    if (read != nullptr) *read = *run;
    return absl::StrJoin(run->notes, "\n");
  }

  const std::string folder_;
};

TEST(MetricsTest, EveryLineIsProgressAndSomeAreEvaluations) {
  const Metrics metrics = ParseMetrics(std::string(kProgress) + kEvaluation);
  EXPECT_THAT(metrics.notes, IsEmpty());
  ASSERT_EQ(metrics.progress.size(), 2);
  EXPECT_EQ(metrics.progress[0].seconds, 1.5);
  EXPECT_EQ(metrics.progress[0].version, 20);
  EXPECT_EQ(metrics.progress[0].loss, 0.75);
  ASSERT_EQ(metrics.evaluations.size(), 1);
  EXPECT_EQ(metrics.evaluations[0].seconds, 2.5);
  EXPECT_EQ(metrics.evaluations[0].version, 25);
  EXPECT_EQ(metrics.evaluations[0].loss, 0.625);
  EXPECT_EQ(metrics.evaluations[0].accuracy, 0.875);
}

TEST(MetricsTest, ALineThatWasCutShortIsLeftOutAndNamed) {
  const Metrics metrics =
      ParseMetrics(std::string(kProgress) + R"({"seconds":2.5,"ver)");
  EXPECT_EQ(metrics.progress.size(), 1);
  EXPECT_THAT(metrics.notes,
              ElementsAre("metrics.jsonl: line 2 is cut short and left out"));
}

TEST(MetricsTest, WhatFollowsADamagedLineIsRead) {
  const Metrics metrics =
      ParseMetrics(std::string("{}\n[1]\n\x01\n") + kEvaluation);
  EXPECT_EQ(metrics.evaluations.size(), 1);
  ASSERT_EQ(metrics.notes.size(), 3);
  EXPECT_EQ(metrics.notes[2],
            "metrics.jsonl: line 3 is no JSON object with seconds and version "
            "and left out");
}

TEST(MetricsTest, ALossThatIsNoNumberIsLeftOut) {
  // JSON has null for NaN; before the first update the loss is none.
  const Metrics metrics =
      ParseMetrics(R"({"seconds":1,"version":3,"loss":null})"
                   "\n"
                   R"({"seconds":0,"version":0,"loss":0.0})");
  EXPECT_THAT(metrics.progress, IsEmpty());
  EXPECT_THAT(metrics.notes, IsEmpty());
}

TEST(MetricsTest, WhatAnEarlierGenerationMeasuredBeyondItsCheckpointIsLeftOut) {
  const Metrics metrics = ParseMetrics(
      R"({"seconds":1,"version":3,"loss":5}
{"seconds":2,"version":6,"loss":4,"test_version":6,"test_loss":4}
{"seconds":3,"version":9,"loss":3}
{"seconds":1.5,"version":5,"loss":4.5}
)");
  ASSERT_EQ(metrics.progress.size(), 2);
  EXPECT_EQ(metrics.progress[0].version, 3);
  EXPECT_EQ(metrics.progress[1].version, 5);
  EXPECT_THAT(metrics.evaluations, IsEmpty());
  EXPECT_THAT(metrics.notes, IsEmpty());
}

TEST_F(RecordedRunTest, AWholeRunLeavesNothingToNote) {
  Write("metrics.jsonl", kEvaluation);
  Write("summary.json", R"({"policy":"K_SYNC","failure":""})");
  WriteLog();
  RecordedRun run;
  EXPECT_EQ(Notes(&run), "");
  EXPECT_EQ(run.policy, "K_SYNC");
  ASSERT_TRUE(run.log.has_value());
  EXPECT_EQ(run.log->records.size(), 1);
}

TEST_F(RecordedRunTest, ALogThatEndsBeforeTheRunIsNoted) {
  Write("metrics.jsonl", kEvaluation);
  Write("summary.json", R"({"failure":"","version":99,"seconds":9})");
  WriteLog();
  RecordedRun run;
  EXPECT_THAT(Notes(&run),
              HasSubstr("/commit_log: the commit logs end with version "));
}

TEST_F(RecordedRunTest, AFolderWithoutARunIsRefused) {
  EXPECT_EQ(ReadRecordedRun(folder_).status().message(),
            folder_ +
                ": is no run's folder: it holds neither metrics.jsonl nor "
                "commit_log");
  EXPECT_EQ(ReadRecordedRun(folder_ + "/none").status().message(),
            folder_ + "/none: is no folder");
}

TEST_F(RecordedRunTest, WhatARunLacksIsSaid) {
  Write("metrics.jsonl", kProgress);
  const std::string notes = Notes();
  EXPECT_THAT(notes, HasSubstr("no summary.json"));
  EXPECT_THAT(notes, HasSubstr("no evaluations"));
  EXPECT_THAT(notes, HasSubstr("commit_log: cannot be read; without staleness "
                               "and timeline"));
}

TEST_F(RecordedRunTest, ARegressionHasNoAccuracy) {
  WriteLog();
  Write("metrics.jsonl",
        R"({"seconds":2,"version":3,"test_version":3,"test_loss":1})");
  EXPECT_THAT(Notes(), HasSubstr("measure no accuracy"));
}

TEST_F(RecordedRunTest, AnEvaluationWhoseLossIsNoNumberHasItsAccuracy) {
  WriteLog();
  Write("metrics.jsonl",
        R"({"seconds":2,"version":3,"test_version":3,"test_loss":null,)"
        R"("test_accuracy":0.5})");
  RecordedRun run;
  EXPECT_THAT(Notes(&run),
              HasSubstr("test losses that are NaN or infinite, which are left "
                        "out: 1"));
  ASSERT_EQ(run.metrics.evaluations.size(), 1);
  EXPECT_EQ(run.metrics.evaluations[0].loss, std::nullopt);
  EXPECT_EQ(run.metrics.evaluations[0].accuracy, 0.5);
}

TEST_F(RecordedRunTest, ADamagedLogLeavesTheEvaluations) {
  WriteLog();
  std::fstream file(folder_ + "/commit_log",
                    std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(3);  // The header's length.
  file.put('\x7f');
  file.close();
  Write("metrics.jsonl", kEvaluation);
  RecordedRun run;
  EXPECT_THAT(Notes(&run), AllOf(HasSubstr("the record at byte 0 is damaged"),
                                 HasSubstr("; without staleness")));
  EXPECT_FALSE(run.log.has_value());
  EXPECT_EQ(run.metrics.evaluations.size(), 1);
}

TEST_F(RecordedRunTest, AFailedRunSaysWhyItFailed) {
  WriteLog();
  Write("metrics.jsonl", kEvaluation);
  Write("summary.json", R"({"failure":"diverged: worker 3"})");
  EXPECT_EQ(Notes(), "the run failed: diverged: worker 3");
  Write("summary.json", "no JSON");
  EXPECT_EQ(Notes(), "summary.json is no JSON object: not used");
}

}  // namespace
}  // namespace sluice
