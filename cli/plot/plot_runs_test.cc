#include "cli/plot/plot_runs.h"

#include <filesystem>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace sluice {
namespace {

TEST(RunLabelsTest, AreTheFoldersNamesUnlessTwoAreAlike) {
  using Strings = std::vector<std::string>;
  EXPECT_EQ(*LabelsOf({"runs/a-1/", "runs/a-2"}, {}), (Strings{"a-1", "a-2"}));
  EXPECT_EQ(*LabelsOf({"x/a-1", "y/a-1"}, {}), (Strings{"x/a-1", "y/a-1"}));
  EXPECT_EQ(*LabelsOf({"x/a-1", "y/a-1"}, {"x", "y"}), (Strings{"x", "y"}));
  EXPECT_EQ(LabelsOf({"a", "a"}, {}).status().message(),
            "two runs are called 'a'");
  EXPECT_EQ(LabelsOf({"a", "b"}, {"c"}).status().message(),
            "1 labels for 2 runs");
}

TEST(RunLabelsTest, TheFolderThatOneIsInHasAName) {
  const std::string here = std::filesystem::current_path().filename().string();
  for (const char* folder : {".", "./", "x/.."}) {
    EXPECT_EQ(LabelsOf({folder}, {})->front(), here) << folder;
  }
}

}  // namespace
}  // namespace sluice
