#include "common/telemetry/log_value.h"

#include <string>

#include "gtest/gtest.h"

namespace sluice {
namespace {

TEST(LogValueTest, WhatIsQuotedInsideEndsNoValue) {
  EXPECT_EQ(LogValue("no room"), R"("no room")");
  EXPECT_EQ(LogValue(""), R"("")");
  EXPECT_EQ(LogValue(R"(a" b="c)"), R"("a\" b=\"c")");
  EXPECT_EQ(LogValue(R"(C:\)"), R"("C:\\")");
}

TEST(LogValueTest, ItIsReadAsItWasWritten) {
  const std::string text = R"(expected "a\b", got "\")";
  EXPECT_EQ(FromLogValue(LogValue(text)), text);
  EXPECT_EQ(FromLogValue(LogValue(text) + " more=\"1\"\n"), text);
}

TEST(LogValueTest, OfALineThatWasCutTheRestIsRead) {
  EXPECT_EQ(FromLogValue(R"("expected)"), "expected");
  EXPECT_EQ(FromLogValue(R"("expected \)"), "expected \\");
  EXPECT_EQ(FromLogValue(""), "");
}

}  // namespace
}  // namespace sluice
