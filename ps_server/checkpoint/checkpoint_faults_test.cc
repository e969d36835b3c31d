// A fault strikes at each operation in turn while a checkpoint is written and
// the one before it is removed. Afterwards there must be a whole checkpoint
// that is found and has the right contents.

#include "common/testing/faulty_files.h"
#include "gmock/gmock.h"
#include "ps_server/checkpoint/checkpoint.h"
#include "ps_server/checkpoint/checkpoint_testing.h"

namespace sluice {
namespace {

using Fault = FaultyFiles::Fault;
using ::testing::HasSubstr;

constexpr CheckpointId kOld{Generation(1), Version(10)};
constexpr CheckpointId kNew{Generation(1), Version(20)};
constexpr CheckpointId kNext{Generation(1), Version(30)};

class FaultsTest : public CheckpointTest,
                   public ::testing::WithParamInterface<Fault> {
 protected:
  // As in a run: the old checkpoint is removed once the new one is there.
  absl::Status Replace(FileOperations* files) const {
    SLUICE_RETURN_IF_ERROR(Write(kNew, files));
    return RemoveCheckpoint(run_, kOld, files);
  }

  // The version of the newest whole checkpoint, whose floats must be those of
  // that version.
  int64_t NewestVersion() const {
    const NewestCheckpoint newest = *OpenNewestCheckpoint(run_);
    if (!newest.checkpoint.has_value()) return -1;
    const Version version(newest.checkpoint->manifest().version());
    for (int i = 0; i < kArrays.size(); ++i) {
      EXPECT_EQ(
          newest.checkpoint->Read(kArrays[i], {0, Layout().size()}).value(),
          Floats(i, {Generation(1), version}));
    }
    return version.value();
  }
};

TEST_P(FaultsTest, AtAnyOperationAWholeCheckpointIsLeft) {
  FileOperations real;
  int replaced = 0;
  int kept = 0;
  for (int operation = 0;; ++operation) {
    SCOPED_TRACE(absl::StrCat("operation ", operation));
    Clear();
    ASSERT_TRUE(Write(kOld, &real).ok());
    FaultyFiles files(GetParam(), operation);
    const absl::Status status = Replace(&files);
    const int64_t newest = NewestVersion();
    if (status.ok()) {
      EXPECT_EQ(newest, 20);
      // There was no operation left to strike at.
      EXPECT_LE(files.operations(), operation);
      break;
    }
    EXPECT_THAT(std::string(status.message()), HasSubstr(run_));
    ASSERT_TRUE(newest == 10 || newest == 20) << newest;
    ++(newest == 10 ? kept : replaced);
    // The run resumes in the same folder.
    ASSERT_TRUE(Write(kNext, &real).ok());
    EXPECT_EQ(NewestVersion(), 30);
    EXPECT_TRUE(RemoveCheckpoint(run_, kNew, &real).ok());
    EXPECT_TRUE(RemoveCheckpoint(run_, kOld, &real).ok());
    EXPECT_EQ(*ListCheckpoints(run_), std::vector<CheckpointId>{kNext});
  }
  // Two shards' files and the manifest, with at least five operations each.
  EXPECT_GT(kept, 15);
  EXPECT_GT(replaced, 3);
}

TEST_P(FaultsTest, TheFirstOfARunIsWholeOrNotThere) {
  for (int operation = 0;; ++operation) {
    SCOPED_TRACE(absl::StrCat("operation ", operation));
    Clear();
    FaultyFiles files(GetParam(), operation);
    const absl::Status status = Write(kNew, &files);
    const int64_t newest = NewestVersion();
    if (status.ok()) {
      EXPECT_EQ(newest, 20);
      break;
    }
    EXPECT_TRUE(newest == -1 || newest == 20) << newest;
  }
}

TEST_P(FaultsTest, WhatIsHalfRemovedIsWholeOrHasNoManifest) {
  FileOperations real;
  for (int operation = 0;; ++operation) {
    SCOPED_TRACE(absl::StrCat("operation ", operation));
    Clear();
    ASSERT_TRUE(Write(kOld, &real).ok());
    FaultyFiles files(GetParam(), operation);
    const bool removed = RemoveCheckpoint(run_, kOld, &files).ok();
    const absl::Status status = Examine(CheckpointFolder(run_, kOld));
    if (!status.ok()) {
      EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
      EXPECT_THAT(std::string(status.message()), HasSubstr("/manifest: "));
    }
    if (removed) break;
  }
}

std::string NameOf(const ::testing::TestParamInfo<Fault>& info) {
  switch (info.param) {
    case Fault::kNone:
      return "None";
    case Fault::kRefused:
      return "Refused";
    case Fault::kKilled:
      return "Killed";
    case Fault::kPowerLost:
      return "PowerLost";
    case Fault::kPowerLostAfterNames:
      return "PowerLostAfterNames";
  }
  return "";
}

INSTANTIATE_TEST_SUITE_P(Faults, FaultsTest,
                         ::testing::Values(Fault::kRefused, Fault::kKilled,
                                           Fault::kPowerLost,
                                           Fault::kPowerLostAfterNames),
                         NameOf);

}  // namespace
}  // namespace sluice
