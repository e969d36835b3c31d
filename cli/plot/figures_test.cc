#include "cli/plot/figures.h"

#include <string>
#include <vector>

#include "cli/plot/run_labels.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

// A run of `updates` updates, one task each, `seconds` apart.
LabelledRun RunOf(const std::string& label, int updates, double seconds) {
  LabelledRun labelled;
  labelled.label = label;
  labelled.run.log.emplace();
  for (int v = 1; v <= updates; ++v) {
    proto::LogRecord task;
    task.set_seconds((v - 1) * seconds);
    task.mutable_task()->set_sequence(v);
    labelled.run.log->records.push_back(task);
    proto::LogRecord commit;
    commit.set_seconds(v * seconds);
    commit.mutable_commit()->set_version(v);
    proto::LogEntry* entry = commit.mutable_commit()->add_entry();
    entry->set_sequence(v);
    entry->add_shard_base(v - 1);
    entry->set_loss(1.0 / v);
    entry->set_samples(8);
    labelled.run.log->records.push_back(commit);
  }
  labelled.curves = CurvesOf(labelled.run);
  return labelled;
}

std::vector<std::string> NamesOf(const std::vector<Figure>& figures) {
  std::vector<std::string> names;
  for (const Figure& figure : figures) names.push_back(figure.name);
  return names;
}

std::string ScriptOf(const std::vector<Figure>& figures,
                     const std::string& name) {
  for (const Figure& figure : figures) {
    if (figure.name == name) return figure.script;
  }
  ADD_FAILURE() << "no figure " << name;
  return "";
}

TEST(FiguresTest, ThereIsAPictureForEachQuestion) {
  EXPECT_THAT(NamesOf(FiguresOf({RunOf("a", 3, 1)}, {})),
              ElementsAre("time", "version", "staleness", "timeline"));
}

TEST(FiguresTest, WithoutALogThereIsNoStalenessAndNoTimeline) {
  LabelledRun run;
  run.label = "a";
  run.curves.test = {{1, 10, 0.5, 0.9}};
  EXPECT_THAT(NamesOf(FiguresOf({run}, {})), ElementsAre("time", "version"));
  run.curves.test.clear();
  EXPECT_THAT(FiguresOf({run}, {}), IsEmpty());
}

TEST(FiguresTest, AccuracyHasAPanelWhereSomeRunMeasuresIt) {
  LabelledRun with = RunOf("with", 3, 1);
  LabelledRun without = RunOf("without", 3, 1);
  without.curves.test = {{1, 1, 0.5, std::nullopt}};
  const std::string plain = ScriptOf(FiguresOf({without}, {}), "time");
  EXPECT_THAT(plain, Not(HasSubstr("ccuracy")));
  EXPECT_THAT(plain, HasSubstr("$loss0 << END\n1 0.5\nEND\n"));
  with.curves.test = {{1, 1, 0.5, 0.9}};
  const std::string script = ScriptOf(FiguresOf({without, with}, {}), "time");
  EXPECT_THAT(script, HasSubstr("Loss and accuracy against time"));
  EXPECT_THAT(script, HasSubstr("$accuracy1 << END\n1 0.9\nEND\n"));
  EXPECT_THAT(script, Not(HasSubstr("$accuracy0")));
}

TEST(FiguresTest, TheSameRunHasTheSameColourInEveryPicture) {
  // The first has no staleness and no bar: the second keeps its own colour.
  LabelledRun first;
  first.label = "first";
  const auto figures = FiguresOf({first, RunOf("second", 3, 1)}, {});
  for (const char* name : {"time", "version", "staleness"}) {
    EXPECT_THAT(ScriptOf(figures, name), HasSubstr(ColourOf(1))) << name;
  }
  EXPECT_THAT(ScriptOf(figures, "staleness"), Not(HasSubstr(ColourOf(0))));
}

TEST(FiguresTest, MoreRunsThanColoursAreDashedAndHatched) {
  EXPECT_EQ(ColourOf(0), ColourOf(8));
  EXPECT_NE(LineOf(0), LineOf(8));
  EXPECT_NE(FillOf(0), FillOf(8));
}

TEST(FiguresTest, EveryValueOfAShortHistogramHasItsBar) {
  LabelledRun run;
  run.label = "a";
  run.curves.staleness = {2, 1, 0, 1};
  const std::string script = ScriptOf(FiguresOf({run}, {}), "staleness");
  EXPECT_THAT(script, HasSubstr("<< END\n0 50\n1 25\n2 0\n3 25\nEND"));
  EXPECT_THAT(script, HasSubstr("set xtics ('0' 0, '1' 1, '2' 2, '3' 3)"));
  EXPECT_THAT(script, HasSubstr("a (mean 1.00)"));
}

TEST(FiguresTest, AWideHistogramHasNoMoreBarsThanCanBeToldApart) {
  LabelledRun run;
  run.label = "a";
  run.curves.staleness.assign(96, 1);
  // Four values a bar; the last four are a tail.
  const std::string script = ScriptOf(FiguresOf({run}, {}), "staleness");
  EXPECT_THAT(script, HasSubstr("<< END\n0 4.166667\n1 4.166667\n"));
  EXPECT_THAT(script, HasSubstr("\n22 8.333333\nEND"));
  EXPECT_THAT(script, HasSubstr("'80–83' 20, '≥ 88' 22)"));
}

TEST(FiguresTest, TheLastBarHoldsALongTail) {
  LabelledRun run;
  run.label = "a";
  run.curves.staleness.assign(500, 0);
  run.curves.staleness[0] = 994;
  run.curves.staleness[3] = 5;
  run.curves.staleness[499] = 1;
  LabelledRun other = run;
  other.curves.staleness = {50, 40, 10};
  const std::string script = ScriptOf(FiguresOf({run, other}, {}), "staleness");
  EXPECT_THAT(script, HasSubstr("set xtics ('0' 0, '1' 1, '≥ 2' 2)"));
  EXPECT_THAT(script, HasSubstr(" 99.4\n0.7875 0\n1.7875 0.6\nEND"));
}

TEST(FiguresTest, TimelinesShareAScaleUnlessOneWouldBeABlur) {
  const LabelledRun slow = RunOf("slow", 10, 1);
  const FigureOptions three{.updates = 3};
  const std::string together =
      ScriptOf(FiguresOf({slow, RunOf("fast", 50, 0.5)}, three), "timeline");
  EXPECT_THAT(together, HasSubstr("set xrange [0:3]"));
  EXPECT_THAT(together, Not(HasSubstr("set xrange [0:1.5]")));
  const std::string apart =
      ScriptOf(FiguresOf({slow, RunOf("fast", 50, 0.01)}, three), "timeline");
  EXPECT_THAT(apart, HasSubstr("set xrange [0:3]"));
  // In milliseconds.
  EXPECT_THAT(apart, HasSubstr("set xrange [0:30]"));
}

TEST(FiguresTest, TextIsNothingButTextToGnuplot) {
  EXPECT_EQ(Quoted("it's `rm -r` \\n {/=9 x}_2"),
            "'it''s `rm -r` \\n {/=9 x}_2'");
  EXPECT_EQ(Quoted("two\nlines"), "'two?lines'");
  EXPECT_EQ(Quoted("na\xc3\xafve"), "'na\xc3\xafve'");
  EXPECT_EQ(Quoted("na\xefve"), "'na?ve'");
}

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

}  // namespace
}  // namespace sluice
