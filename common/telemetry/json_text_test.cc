#include "common/telemetry/json_text.h"

#include "gtest/gtest.h"

namespace sluice {
namespace {

TEST(JsonTextTest, BytesThatAreNoUtf8AreReplaced) {
  EXPECT_EQ(JsonText({{"file", "na\xc3\xafve\xff"}, {"bytes", 3}}),
            "{\"file\":\"na\xc3\xafve\xef\xbf\xbd\",\"bytes\":3}");
}

TEST(Utf8TextTest, OnlyBytesThatAreNoUtf8AreReplaced) {
  EXPECT_EQ(Utf8Text(""), "");
  EXPECT_EQ(Utf8Text("a \"na\xc3\xafve\"\n\\ \x01"),
            "a \"na\xc3\xafve\"\n\\ \x01");
  EXPECT_EQ(Utf8Text("caf\xe9/1.jpg"), "caf\xef\xbf\xbd/1.jpg");
  EXPECT_EQ(Utf8Text("cut \xc3"), "cut \xef\xbf\xbd");
}

TEST(JsonTextTest, AnIndentSpreadsItOverLines) {
  EXPECT_EQ(JsonText({{"bytes", 3}}, 2), "{\n  \"bytes\": 3\n}");
}

}  // namespace
}  // namespace sluice
