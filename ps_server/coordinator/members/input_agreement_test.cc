#include "ps_server/coordinator/members/input_agreement.h"

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

const Peer kWorker0{Role::kWorker, 0};
const Peer kWorker1{Role::kWorker, 1};
const Peer kWorker2{Role::kWorker, 2};
const Peer kShard0{Role::kShard, 0};

class InputAgreementTest : public ::testing::Test {
 protected:
  // Joins if it may; the refusal's words, or none.
  std::string Join(Peer peer, const Inputs& inputs) {
    const absl::Status status = agreement_.Check(peer, inputs);
    if (status.ok()) agreement_.Joined(peer, inputs);
    return std::string(status.message());
  }

  InputAgreement agreement_{{}};
};

TEST_F(InputAgreementTest, ADifferenceNamesTheInputBothValuesAndBothPeers) {
  EXPECT_EQ(Join(kWorker0, {{"data", "a"}, {"device", "cpu"}}), "");
  EXPECT_EQ(Join(kWorker1, {{"data", "b"}, {"device", "cpu"}}),
            "worker 1: data is \"b\" here, \"a\" at worker 0");
  EXPECT_EQ(agreement_.Check(kWorker1, {{"data", "b"}}).code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(Join(kWorker1, {{"data", "a"}, {"device", "cpu"}}), "");
}

TEST_F(InputAgreementTest, WhoDoesNotNameAnInputDoesNotDisagree) {
  EXPECT_EQ(Join(kWorker0, {{"data", "a"}}), "");
  EXPECT_EQ(Join(kShard0, {{"weights", "w"}}), "");
  EXPECT_EQ(Join(kWorker1, {}), "");
}

TEST_F(InputAgreementTest, SoManyInputsAreNamedAndNoMore) {
  for (int i = 0; i < InputAgreement::kMost; ++i) {
    EXPECT_EQ(Join({Role::kWorker, i + 2}, {{absl::StrCat("input ", i), "a"}}),
              "");
  }
  EXPECT_EQ(Join(kWorker1, {{"input 7", "a"}}), "");
  EXPECT_EQ(Join(kWorker1, {{"another", "a"}}),
            "worker 1: names the input \"another\", and 64 others are named "
            "already");
  // Until the run begins only the living count here, too.
  agreement_.Lost({Role::kWorker, 2});
  EXPECT_EQ(Join(kWorker1, {{"another", "a"}}), "");
}

TEST_F(InputAgreementTest, OfOneThatMayDifferSoManyValuesAreRemembered) {
  InputAgreement agreement({"device"});
  for (int i = 0; i < InputAgreement::kMost; ++i) {
    agreement.Joined({Role::kWorker, i}, {{"device", absl::StrCat("d", i)}});
  }
  const Peer next{Role::kWorker, InputAgreement::kMost};
  EXPECT_EQ(agreement.Joined(next, {{"device", "another"}}).size(), 1);
  EXPECT_EQ(agreement.Joined(next, {{"device", "another"}}).size(), 1)
      << "it was remembered";
}

TEST_F(InputAgreementTest, BeforeTheRunOnlyTheLivingCount) {
  EXPECT_EQ(Join(kWorker0, {{"data", "wrong"}}), "");
  EXPECT_NE(Join(kWorker1, {{"data", "right"}}), "");
  agreement_.Lost(kWorker0);
  EXPECT_EQ(Join(kWorker1, {{"data", "right"}}), "");
  EXPECT_NE(Join(kWorker0, {{"data", "wrong"}}), "");
}

TEST_F(InputAgreementTest, WhatOneOfTwoFoundStaysWhenTheOtherLeaves) {
  EXPECT_EQ(Join(kWorker0, {{"data", "a"}}), "");
  EXPECT_EQ(Join(kWorker1, {{"data", "a"}}), "");
  agreement_.Lost(kWorker0);
  EXPECT_NE(Join(kWorker2, {{"data", "b"}}), "");
}

TEST_F(InputAgreementTest, WhatTheRunBeganWithHoldsInLaterGenerations) {
  EXPECT_EQ(Join(kWorker0, {{"data", "a"}, {"device", "cpu"}}), "");
  EXPECT_EQ(Join(kShard0, {{"initial weights", "w"}}), "");
  const Inputs began = agreement_.Agreed();
  EXPECT_EQ(began, Inputs({{"data", "a"}}));
  const InputAgreement later({}, began);
  EXPECT_EQ(later.Check(kWorker1, {{"data", "b"}}).message(),
            "worker 1: data is \"b\" here, \"a\" when the run began");
  EXPECT_TRUE(later.Check(kWorker1, {{"data", "a"}, {"device", "gpu"}}).ok());
  EXPECT_EQ(later.Agreed(), began) << "also where nobody has joined";
}

TEST_F(InputAgreementTest, BeforeTheRunAPeerMayComeBackWithAnother) {
  EXPECT_EQ(Join(kWorker0, {{"data", "wrong"}}), "");
  EXPECT_EQ(Join(kWorker0, {{"data", "right"}}), "");
  EXPECT_EQ(Join(kWorker1, {{"data", "right"}}), "");
}

TEST_F(InputAgreementTest, DuringTheRunWhatAnybodyFoundCounts) {
  EXPECT_EQ(Join(kWorker0, {{"data", "a"}}), "");
  agreement_.RunBegins();
  agreement_.Lost(kWorker0);
  EXPECT_EQ(Join(kWorker0, {{"data", "b"}}),
            "worker 0: data is \"b\" here, \"a\" before at worker 0");
  EXPECT_EQ(Join(kWorker1, {{"data", "b"}}),
            "worker 1: data is \"b\" here, \"a\" at worker 0");
  EXPECT_EQ(Join(kWorker1, {{"data", "a"}}), "");
}

TEST_F(InputAgreementTest, WhatMayDifferIsToldOnceForEachValue) {
  InputAgreement agreement({"device"});
  EXPECT_TRUE(agreement.Joined(kWorker0, {{"device", "cpu"}}).empty());
  EXPECT_TRUE(agreement.Check(kWorker1, {{"device", "gpu"}}).ok());
  const std::vector<std::string> told =
      agreement.Joined(kWorker1, {{"device", "gpu"}});
  ASSERT_EQ(told.size(), 1);
  EXPECT_EQ(told[0], "worker 1: device is \"gpu\" here, \"cpu\" at worker 0");
  EXPECT_TRUE(agreement.Joined(kWorker2, {{"device", "gpu"}}).empty());
}

}  // namespace
}  // namespace sluice
