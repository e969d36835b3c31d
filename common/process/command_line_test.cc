#include "common/process/command_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace sluice {
namespace {

struct Parsed {
  std::optional<int> code;
  std::string folder;
  bool json = false;
  std::vector<std::string> program;
  std::string said;
};

void ParseInto(std::vector<std::string> words, CLI::App* app, Parsed* parsed) {
  words.insert(words.begin(), "sluice");
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  testing::internal::CaptureStderr();
  parsed->code =
      ParseCommandLine(static_cast<int>(argv.size()), argv.data(), app);
  parsed->said = testing::internal::GetCapturedStderr();
}

Parsed Parse(const std::vector<std::string>& words) {
  Parsed parsed;
  CLI::App app("", "sluice");
  app.add_option("--run-dir", parsed.folder);
  app.add_flag("--json", parsed.json);
  AddProgram(&app, "after --", &parsed.program);
  ParseInto(words, &app, &parsed);
  return parsed;
}

TEST(CommandLineTest, FillsWhatWasAdded) {
  for (const auto& words : std::vector<std::vector<std::string>>{
           {"--run-dir=a=", "--json"}, {"--run-dir", "a=", "--json"}}) {
    const Parsed parsed = Parse(words);
    EXPECT_EQ(parsed.code, std::nullopt) << parsed.said;
    EXPECT_EQ(parsed.folder, "a=");
    EXPECT_TRUE(parsed.json);
  }
}

TEST(CommandLineTest, AnOptionWithoutItsValueDoesNotTakeTheNextOne) {
  const Parsed parsed = Parse({"--run-dir=", "--json"});
  EXPECT_EQ(parsed.code, 2);
  EXPECT_THAT(parsed.said,
              testing::HasSubstr("--run-dir= is followed by no value"));
}

TEST(CommandLineTest, AMisspeltWordIsNamedBeforeTheOneThatIsMissingForIt) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"--verison"}, "--verison"},
      {{"trian", "job", "--seed=1"}, "trian"},
      {{"train", "--jbo=job"}, "--jbo=job"}};
  for (const auto& [words, misspelt] : cases) {
    CLI::App app("", "sluice");
    app.require_subcommand(1);
    std::string job;
    app.add_subcommand("train")->add_option("--job", job)->required();
    Parsed parsed;
    ParseInto(words, &app, &parsed);
    EXPECT_EQ(parsed.code, 2);
    EXPECT_THAT(parsed.said,
                testing::HasSubstr("not expected: " + misspelt + "\n"));
  }
}

TEST(CommandLineTest, AnEmptyValueIsNotTakenForNone) {
  const Parsed parsed = Parse({"--run-dir", "", "--json"});
  EXPECT_EQ(parsed.code, 2);
  EXPECT_THAT(parsed.said,
              testing::HasSubstr("the argument after --run-dir is empty"));
}

TEST(CommandLineTest, WhatFollowsTwoDashesIsTheProgramsWordForWord) {
  for (const std::vector<std::string>& program :
       std::vector<std::vector<std::string>>{
           {"prog", "--tag=", ""},
           {"prog", "[1,2]", "[", "[]", "{}", "%%", "a,b"},
           {"prog", "--json", "--", "--run-dir=b", "--help", "++", "-x", " "},
           {"{}", ""},
           {""}}) {
    std::vector<std::string> words = {"--run-dir=a", "--"};
    words.insert(words.end(), program.begin(), program.end());
    const Parsed parsed = Parse(words);
    EXPECT_EQ(parsed.code, std::nullopt) << parsed.said;
    EXPECT_EQ(parsed.folder, "a");
    EXPECT_FALSE(parsed.json);
    EXPECT_THAT(parsed.program, testing::ElementsAreArray(program));
  }
}

TEST(CommandLineTest, AMistakeAndHelpEndTheProcess) {
  EXPECT_EQ(Parse({"--jsno"}).code, 2);
  testing::internal::CaptureStdout();
  EXPECT_EQ(Parse({"--help"}).code, 0);
  testing::internal::GetCapturedStdout();
}

}  // namespace
}  // namespace sluice
