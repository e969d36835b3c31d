#include "ps_server/coordinator/session/frame_limits.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;

proto::Join OfWorker3() {
  proto::Join join;
  join.set_role(proto::WORKER);
  join.set_id(3);
  join.set_process("host:17");
  join.add_members("host:18");
  (*join.mutable_inputs())["device"] = "CPU";
  return join;
}

std::string Refusal(const proto::Join& join) {
  const absl::Status status = CheckNames(join);
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  return std::string(status.message());
}

TEST(FrameLimitsTest, NamesOfOrdinaryLengthPass) {
  EXPECT_TRUE(CheckNames(OfWorker3()).ok());
}

TEST(FrameLimitsTest, WhatIsTooLongIsRefusedByItsField) {
  const std::string most(kMostNameBytes, 'x');
  proto::Join join = OfWorker3();
  join.set_process(most);
  EXPECT_TRUE(CheckNames(join).ok());
  join.set_process(most + "x");
  EXPECT_EQ(Refusal(join),
            "worker 3: Join.process has 1025 bytes, expected at most 1024");
  join = OfWorker3();
  join.set_address(most + "x");
  EXPECT_THAT(Refusal(join), HasSubstr("Join.address has 1025 bytes"));
  join = OfWorker3();
  join.add_members(most + "x");
  EXPECT_THAT(Refusal(join), HasSubstr("Join.members has 1025 bytes"));
  join = OfWorker3();
  (*join.mutable_inputs())["device"] = std::string(kMostInputBytes + 1, 'x');
  EXPECT_THAT(Refusal(join), HasSubstr("Join.inputs has 4097 bytes"));
}

TEST(FrameLimitsTest, TooManyInputsAreRefused) {
  proto::Join join = OfWorker3();
  for (int i = 0; join.inputs_size() < kMostInputs; ++i) {
    (*join.mutable_inputs())[absl::StrCat("input ", i)] = "a";
  }
  EXPECT_TRUE(CheckNames(join).ok());
  (*join.mutable_inputs())["one more"] = "a";
  EXPECT_EQ(Refusal(join),
            "worker 3: Join.inputs has 33 entries, expected at most 32");
}

TEST(FrameLimitsTest, AControlCharacterThatCouldForgeALineIsRefused) {
  proto::Join join = OfWorker3();
  join.set_process("host:17\n2024-05-01T12:00:00.123Z info event=forged");
  EXPECT_EQ(Refusal(join), "worker 3: Join.process has control characters");
}

TEST(FrameLimitsTest, ALongReasonIsCutAtACharacter) {
  proto::ToCoordinator frame;
  frame.mutable_leave()->set_reason(std::string(kMostReasonBytes, 'x'));
  EXPECT_FALSE(WithReasonCut(frame).has_value());
  // The last of these characters, of two bytes, would be cut in half.
  std::string reason(1, 'x');
  while (reason.size() < 2 * kMostReasonBytes) reason += "\u00e9";
  frame.set_sequence(7);
  frame.mutable_leave()->set_reason(reason);
  const auto cut = WithReasonCut(frame);
  ASSERT_TRUE(cut.has_value());
  EXPECT_EQ(cut->leave().reason(), reason.substr(0, kMostReasonBytes - 1));
  EXPECT_EQ(cut->sequence(), 7);
  frame.mutable_rejected()->set_reason(reason);
  EXPECT_TRUE(WithReasonCut(frame).has_value());
  frame.mutable_evaluated()->set_error(reason);
  EXPECT_TRUE(WithReasonCut(frame).has_value());
  frame.mutable_stored()->set_error(reason);
  EXPECT_TRUE(WithReasonCut(frame).has_value());
  frame.mutable_heartbeat()->set_waits_for(reason);
  EXPECT_TRUE(WithReasonCut(frame).has_value());
}

}  // namespace
}  // namespace sluice
