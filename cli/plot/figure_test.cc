#include "cli/plot/figure.h"

#include <filesystem>
#include <fstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

TEST(FigureTest, TextIsNothingButTextToGnuplot) {
  EXPECT_EQ(Quoted("it's `rm -r` \\n {/=9 x}_2"),
            "'it''s `rm -r` \\n {/=9 x}_2'");
  EXPECT_EQ(Quoted("'s"), "'\u2019s'");
  EXPECT_EQ(Quoted("two\nlines"), "'two?lines'");
  EXPECT_EQ(Quoted("na\xc3\xafve"), "'na\xc3\xafve'");
  EXPECT_EQ(Quoted("na\xefve"), "'na?ve'");
}

TEST(FigureTest, DataStandAsTheScriptReadsThem) {
  FigureData data;
  data.AddNumber("target", 0.25);
  data.AddText("title", "it's");
  data.AddNumbers("ends", {1, 2.5});
  data.AddTexts("legend", {"a", "b"});
  data.AddBlock("test", "seconds loss", {"1 2\n3 4\n", "", "5 6\n"});
  const Figure figure = data.Drawn("time", "plot $test\n");
  EXPECT_EQ(figure.name, "time");
  EXPECT_THAT(figure.script,
              StartsWith("# Draws time.svg and time.png: gnuplot time.gnuplot\n"
                         "target = 0.25\n"
                         "title = 'it''s'\n"
                         "array ends[2] = [1, 2.5]\n"
                         "array legend[2] = ['a', 'b']\n"
                         "test = '1 3'\n"
                         "$test << END\n# seconds loss\n"
                         "1 2\n3 4\n\n\n5 6\nEND\n"));
  EXPECT_THAT(figure.script, HasSubstr("array colours[8]"));
  EXPECT_THAT(figure.script, testing::EndsWith("\nplot $test\n"));
}

TEST(FigureTest, AProgramThatTakesTooLongIsNamedAndIsNoSignal) {
  const std::string gnuplot = testing::TempDir() + "/gnuplot";
  std::ofstream(gnuplot) << "#!/bin/sh\nexec sleep 1000\n";
  std::filesystem::permissions(gnuplot, std::filesystem::perms::owner_all);
  const absl::Status late = Draw({"time", "plot x\n"}, testing::TempDir(),
                                 gnuplot, absl::Milliseconds(10));
  EXPECT_EQ(late, absl::DeadlineExceededError(
                      gnuplot + " " + testing::TempDir() +
                      "/time.gnuplot: took longer than 10ms"));
}

}  // namespace
}  // namespace sluice
