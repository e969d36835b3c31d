#include "common/telemetry/logged_values.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using testing::ElementsAre;
using testing::Pair;

TEST(LoggedValuesTest, TheNewestValueOfANameStands) {
  LoggedValues values;
  ASSERT_TRUE(AddLogged("loss/L1.norm-2_x", 1.5, &values).ok());
  ASSERT_TRUE(AddLogged("loss/L1.norm-2_x", 2.5, &values).ok());
  EXPECT_THAT(values, ElementsAre(Pair("loss/L1.norm-2_x", 2.5)));
}

TEST(LoggedValuesTest, AValueNeedNotBeFinite) {
  LoggedValues values;
  ASSERT_TRUE(AddLogged("a", NAN, &values).ok());
  EXPECT_TRUE(std::isnan(values["a"]));
}

TEST(LoggedValuesTest, ANameThatIsNoneIsNamed) {
  LoggedValues values;
  EXPECT_TRUE(AddLogged(std::string(64, 'x'), 1, &values).ok());
  values.clear();
  for (const std::string& name :
       {std::string(), std::string(65, 'x'), std::string("a b"),
        std::string("a\"b"), std::string("a\n"), std::string("\xc3\xa4")}) {
    EXPECT_TRUE(absl::IsInvalidArgument(AddLogged(name, 1, &values))) << name;
  }
  EXPECT_TRUE(values.empty());
  EXPECT_EQ(AddLogged("a b", 1, &values).message(),
            "a value logged as \"a b\", expected a name of 1 to 64 letters, "
            "digits and _ . / -");
}

TEST(LoggedValuesTest, OneNameTooManyIsRefusedAndTheOthersStay) {
  LoggedValues values;
  for (int i = 0; i < 64; ++i) {
    ASSERT_TRUE(AddLogged(absl::StrCat("v", i), i, &values).ok());
  }
  EXPECT_EQ(AddLogged("w", 1, &values).message(),
            "a value logged as \"w\", expected at most 64 names");
  EXPECT_EQ(values.size(), 64);
  EXPECT_TRUE(AddLogged("v7", 70, &values).ok());
  EXPECT_EQ(values["v7"], 70);
}

}  // namespace
}  // namespace sluice
