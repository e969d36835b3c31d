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
  EXPECT_EQ(Readable(std::string(kMostReasonBytes, 'x')),
            std::string(kMostReasonBytes, 'x'));
  // The last of these characters, of two bytes, would be cut in half.
  std::string reason(1, 'x');
  while (reason.size() < 2 * kMostReasonBytes) reason += "\u00e9";
  EXPECT_EQ(Readable(reason), reason.substr(0, kMostReasonBytes - 1));
}

// The first would set the title of the window in which the status is read;
// with the second protobuf parses neither a status nor the log's header.
TEST(FrameLimitsTest, AReasonHoldsWhatATerminalAndProtobufTakeForText) {
  EXPECT_EQ(Readable("\x1b]0;x\x07"), "?]0;x?");
  EXPECT_EQ(Readable("caf\xe9"), "caf\xef\xbf\xbd");
  EXPECT_EQ(Readable("one line\n\tand another"), "one line  and another");
}

TEST(FrameLimitsTest, TheReasonOfEachFrameIsMadeReadable) {
  proto::ToCoordinator frame;
  frame.set_sequence(7);
  const auto readable = [&] {
    const auto with = WithReadableReason(frame);
    EXPECT_TRUE(with.has_value()) << frame.body_case();
    return with.value_or(frame);
  };
  frame.mutable_leave()->set_reason("\x07");
  EXPECT_EQ(readable().leave().reason(), "?");
  EXPECT_EQ(readable().sequence(), 7);
  frame.mutable_rejected()->set_reason("\x07");
  EXPECT_EQ(readable().rejected().reason(), "?");
  frame.mutable_evaluated()->set_error("\x07");
  EXPECT_EQ(readable().evaluated().error(), "?");
  frame.mutable_stored()->set_error("\x07");
  EXPECT_EQ(readable().stored().error(), "?");
  frame.mutable_executed()->set_fault("\x07");
  EXPECT_EQ(readable().executed().fault(), "?");
  frame.mutable_heartbeat()->set_waits_for("\x07");
  EXPECT_EQ(readable().heartbeat().waits_for(), "?");
  frame.mutable_executed()->clear_fault();
  EXPECT_FALSE(WithReadableReason(frame).has_value());
}

}  // namespace
}  // namespace sluice
