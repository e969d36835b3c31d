#include "ps_server/coordinator/session/job_agreement.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;

proto::Join JoinWith(const std::string& fingerprint, const std::string& job) {
  proto::Join join;
  join.set_role(proto::WORKER);
  join.set_id(3);
  join.set_fingerprint(fingerprint);
  join.set_job(job);
  return join;
}

class JobAgreementTest : public testing::Test {
 protected:
  std::string Refusal(const proto::Join& join) {
    const absl::Status status = agreement_.Check(join);
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
    return std::string(status.message());
  }
  const JobAgreement agreement_{"abc", "seed: 1\n"};
};

TEST_F(JobAgreementTest, TheSameFingerprintIsTheSameJob) {
  EXPECT_TRUE(agreement_.Check(JoinWith("abc", "")).ok());
}

TEST_F(JobAgreementTest, AnotherJobIsRefusedWithTheFirstDifference) {
  EXPECT_EQ(Refusal(JoinWith("def", "seed: 2\n")),
            "worker 3: another job than the coordinator's: seed: 2 here, 1 "
            "there");
  EXPECT_THAT(Refusal(JoinWith("def", "seed: 1\n")),
              HasSubstr("another build or other data: fingerprint def here"));
}

TEST_F(JobAgreementTest, AJobOfAnyOtherSizeIsNotParsed) {
  const std::string huge(1 << 20, '#');  // A comment, which ends nowhere.
  EXPECT_THAT(Refusal(JoinWith("def", huge)),
              HasSubstr("its text has 1048576 bytes here, 8 there"));
}

TEST_F(JobAgreementTest, WhoIsNobodyIsRefused) {
  proto::Join join = JoinWith("abc", "");
  join.clear_role();
  EXPECT_TRUE(absl::IsInvalidArgument(agreement_.Check(join)));
}

}  // namespace
}  // namespace sluice
