#include "ps_server/coordinator/members/instruction_agreement.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr auto kNone = proto::INSTRUCTION_SET_UNSPECIFIED;
constexpr Peer kEvaluator{Role::kEvaluator, 0};

Peer Worker(int64_t id) { return {Role::kWorker, id}; }

TEST(InstructionAgreementTest, IsTheWidestThatAllWhoLiveHave) {
  InstructionAgreement all_wide(kNone, /*exact=*/true);
  all_wide.Joined(Worker(0), proto::AVX512);
  all_wide.Joined(kEvaluator, proto::AVX512);
  EXPECT_EQ(all_wide.Agree(), proto::AVX512);

  InstructionAgreement one_narrow(kNone, /*exact=*/true);
  one_narrow.Joined(Worker(0), proto::AVX512);
  one_narrow.Joined(Worker(1), proto::AVX2);
  EXPECT_EQ(one_narrow.Agree(), proto::AVX2);

  InstructionAgreement narrow_is_gone(kNone, /*exact=*/true);
  narrow_is_gone.Joined(Worker(0), proto::AVX512);
  narrow_is_gone.Joined(Worker(1), proto::AVX2);
  narrow_is_gone.Lost(Worker(1));
  EXPECT_EQ(narrow_is_gone.Agree(), proto::AVX512);
}

TEST(InstructionAgreementTest, WhoNamesNothingTakesNoPart) {
  InstructionAgreement agreement(kNone, /*exact=*/true);
  agreement.Joined(Worker(0), kNone);
  EXPECT_EQ(agreement.Agree(), std::nullopt);
  agreement.Joined(Worker(1), proto::AVX512);
  EXPECT_EQ(agreement.Agree(), proto::AVX512);
  EXPECT_TRUE(agreement.Check(Worker(2), kNone).ok());
}

TEST(InstructionAgreementTest, IsMadeOnceForTheWholeRun) {
  InstructionAgreement agreement(kNone, /*exact=*/false);
  agreement.Joined(Worker(0), proto::AVX512);
  EXPECT_EQ(agreement.Agree(), proto::AVX512);
  agreement.Joined(Worker(1), proto::AVX2);
  EXPECT_EQ(agreement.Agree(), std::nullopt);

  InstructionAgreement next_generation(proto::AVX2, /*exact=*/true);
  next_generation.Joined(Worker(0), proto::AVX512);
  EXPECT_EQ(next_generation.Agree(), std::nullopt);
}

TEST(InstructionAgreementTest, OnlySyncRefusesAWorkerThatLacksIt) {
  const InstructionAgreement sync(proto::AVX512, /*exact=*/true);
  const absl::Status refused = sync.Check(Worker(2), proto::AVX2);
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.message()),
              AllOf(HasSubstr("worker 2: has no wider instructions than AVX2"),
                    HasSubstr("computes with AVX512")));
  EXPECT_TRUE(sync.Check(Worker(2), proto::AVX512).ok());
  EXPECT_TRUE(sync.Check(kEvaluator, proto::AVX2).ok());
  const InstructionAgreement narrow(proto::AVX2, /*exact=*/true);
  EXPECT_TRUE(narrow.Check(Worker(2), proto::AVX512).ok());
  const InstructionAgreement async(proto::AVX512, /*exact=*/false);
  EXPECT_TRUE(async.Check(Worker(2), proto::AVX2).ok());
}

}  // namespace
}  // namespace sluice
