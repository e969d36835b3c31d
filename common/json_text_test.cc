#include "common/json_text.h"

#include "gtest/gtest.h"

namespace sluice {
namespace {

TEST(JsonTextTest, BytesThatAreNoUtf8AreReplaced) {
  EXPECT_EQ(JsonText({{"file", "na\xc3\xafve\xff"}, {"bytes", 3}}),
            "{\"file\":\"na\xc3\xafve\xef\xbf\xbd\",\"bytes\":3}");
}

TEST(JsonTextTest, AnIndentSpreadsItOverLines) {
  EXPECT_EQ(JsonText({{"bytes", 3}}, 2), "{\n  \"bytes\": 3\n}");
}

}  // namespace
}  // namespace sluice
