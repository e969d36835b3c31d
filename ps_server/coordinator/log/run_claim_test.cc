#include "ps_server/coordinator/log/run_claim.h"

#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "ps_server/coordinator/log/generations.h"

namespace sluice {
namespace {

class RunClaimTest : public ::testing::Test {
 protected:
  RunClaimTest() {
    std::filesystem::remove_all(run_);
    std::filesystem::create_directories(run_);
  }
  absl::Status Make(int64_t generation) {
    return MakeClaim(run_, Generation(generation), &files_);
  }
  absl::StatusCode Prove(int64_t generation) {
    return ProveClaim(run_, Generation(generation), &files_).code();
  }

  const std::string run_ = absl::StrCat(
      ::testing::TempDir(), "/",
      ::testing::UnitTest::GetInstance()->current_test_info()->name());
  FileOperations files_;
};

TEST_F(RunClaimTest, ItsOwnerProvesItAsOftenAsHeLikes) {
  ASSERT_TRUE(Make(1).ok());
  for (int i = 0; i < 3; ++i) EXPECT_EQ(Prove(1), absl::StatusCode::kOk);
}

TEST_F(RunClaimTest, WhoeverTakesALaterGenerationEndsAllEarlierOnes) {
  ASSERT_TRUE(Make(1).ok());
  ASSERT_TRUE(Make(2).ok());
  ASSERT_TRUE(Make(5).ok());
  for (const int64_t earlier : {1, 2, 4}) {
    EXPECT_EQ(Prove(earlier), absl::StatusCode::kPermissionDenied) << earlier;
  }
  EXPECT_EQ(Prove(5), absl::StatusCode::kOk);
  const absl::Status over = ProveClaim(run_, Generation(2), &files_);
  EXPECT_EQ(over.message(),
            absl::StrCat(run_,
                         "/lead-2: is gone: another process has taken "
                         "the next generation of the run: this one is "
                         "over"));
  // Nothing but the newest is left.
  for (const auto& entry : std::filesystem::directory_iterator(run_)) {
    EXPECT_EQ(entry.path().filename(), "lead-5");
  }
}

// As where a file system was unmounted: nobody has taken the run.
TEST_F(RunClaimTest, AFolderThatIsGoneProvesNothing) {
  ASSERT_TRUE(Make(2).ok());
  std::ofstream(CommitLogPath(run_, Generation(2))).flush();
  std::filesystem::remove(absl::StrCat(run_, "/lead-2"));
  EXPECT_EQ(ProveClaim(run_, Generation(2), &files_),
            absl::UnavailableError(absl::StrCat(
                run_,
                "/lead-2: is gone, and no later generation is there: the run "
                "folder is not what it was")));
  std::filesystem::remove_all(run_);
  EXPECT_EQ(Prove(2), absl::StatusCode::kUnavailable);
}

TEST_F(RunClaimTest, ALaterCommitLogOrClaimAloneIsProof) {
  std::ofstream(CommitLogPath(run_, Generation(3))).flush();
  EXPECT_EQ(Prove(2), absl::StatusCode::kPermissionDenied);
  std::filesystem::remove(CommitLogPath(run_, Generation(3)));
  std::ofstream(absl::StrCat(run_, "/lead-3.proving")).flush();
  EXPECT_EQ(Prove(2), absl::StatusCode::kPermissionDenied);
}

// The first rename is done, the second is refused.
class Interrupted : public FileOperations {
 public:
  absl::Status Rename(const std::string& from, const std::string& to) override {
    if (renames_++ == 1) return absl::UnavailableError(to + ": rename: EIO");
    return FileOperations::Rename(from, to);
  }

 private:
  int renames_ = 0;
};

TEST_F(RunClaimTest, AProofThatWasInterruptedIsTakenUpAgain) {
  ASSERT_TRUE(Make(1).ok());
  Interrupted disk;
  EXPECT_EQ(ProveClaim(run_, Generation(1), &disk).code(),
            absl::StatusCode::kUnavailable);
  EXPECT_EQ(Prove(1), absl::StatusCode::kOk);
}

TEST_F(RunClaimTest, AClaimIsEndedInTheMiddleOfAProof) {
  ASSERT_TRUE(Make(1).ok());
  Interrupted disk;
  ProveClaim(run_, Generation(1), &disk).IgnoreError();
  ASSERT_TRUE(Make(2).ok());
  EXPECT_EQ(Prove(1), absl::StatusCode::kPermissionDenied);
}

// It had created its commit log, and not yet its claim, when another process
// took the next generation, found no claim, and went on.
TEST_F(RunClaimTest, WhoComesTooLateWithItsClaimIsToldSo) {
  std::ofstream(CommitLogPath(run_, Generation(2))).flush();
  std::ofstream(CommitLogPath(run_, Generation(3))).flush();
  ASSERT_TRUE(Make(3).ok());
  const absl::Status late = Make(2);
  EXPECT_EQ(late.code(), absl::StatusCode::kPermissionDenied) << late;
  EXPECT_EQ(late.message(),
            absl::StrCat(run_,
                         ": another process has taken generation 3 of the "
                         "run: this one, which was to have 2, is over"));
  EXPECT_EQ(Prove(2), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(Prove(3), absl::StatusCode::kOk);
}

}  // namespace
}  // namespace sluice
