#include "cli/deploy/kubernetes_yaml.h"

#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "yaml-cpp/yaml.h"

namespace sluice {
namespace {

using Json = nlohmann::ordered_json;

// The same value, as far as YAML tells scalars apart.
void ExpectSame(const Json& wanted, const YAML::Node& got) {
  if (wanted.is_object()) {
    ASSERT_TRUE(got.IsMap());
    EXPECT_EQ(wanted.size(), got.size());
    for (const auto& [key, value] : wanted.items()) ExpectSame(value, got[key]);
  } else if (wanted.is_array()) {
    ASSERT_TRUE(got.IsSequence());
    ASSERT_EQ(wanted.size(), got.size());
    for (size_t i = 0; i < wanted.size(); ++i) ExpectSame(wanted[i], got[i]);
  } else if (wanted.is_string()) {
    EXPECT_EQ(wanted.get<std::string>(), got.as<std::string>());
    // A plain scalar ("?") could be a number to another reader.
    const std::string text = wanted;
    if (text.empty() || !absl::ascii_isalpha(text[0]) || text == "yes") {
      EXPECT_EQ(got.Tag(), "!") << text;
    }
  } else {
    EXPECT_EQ(wanted.dump(), got.as<std::string>());
    EXPECT_EQ(got.Tag(), "?");
  }
}

TEST(KubernetesYamlTest, IsReadBackAsItWas) {
  const std::vector<Json> objects = {
      {{"plain", "sluice"},
       {"number", 7},
       {"truth", true},
       {"texts", {"7", "yes", "", "a: b", "tab\there", "\"quoted\"", "# no"}},
       {"blocks", {"a\n b\n", " a\nb\n", "a\nb", "a\n\n", "a\r\nb\n", "\n"}},
       {"nested", {{{"a", {{"b", {1, 2}}}}}}}},
      {{"second", "document"}}};
  const std::string text = KubernetesYaml("first\nsecond", objects);
  EXPECT_THAT(text, ::testing::StartsWith("# first\n# second\n---\n"));
  const std::vector<YAML::Node> read = YAML::LoadAll(text);
  ASSERT_EQ(read.size(), objects.size());
  for (size_t i = 0; i < read.size(); ++i) ExpectSame(objects[i], read[i]);
}

// Kubernetes' reader is one of YAML 1.1.
TEST(KubernetesYamlTest, WhatAnotherReaderTakesForTheEndOfALineIsEscaped) {
  for (const std::string mark : {"\xc2\x85", "\xe2\x80\xa8", "\xe2\x80\xa9"}) {
    const Json object = {{"text", "# one" + mark + " two\nname: 3\n"}};
    const std::string text = KubernetesYaml("", {object});
    EXPECT_THAT(text, ::testing::Not(::testing::HasSubstr(mark)));
    ExpectSame(object, YAML::Load(text));
  }
}

}  // namespace
}  // namespace sluice
