#include "cli/plot/run_figures.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

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

TEST(RunFiguresTest, ThereIsAPictureForEachQuestion) {
  EXPECT_THAT(NamesOf(FiguresOf({RunOf("a", 3, 1)}, {})),
              ElementsAre("time", "version", "staleness", "timeline"));
}

TEST(RunFiguresTest, WithoutALogThereIsNoStalenessAndNoTimeline) {
  LabelledRun run;
  run.label = "a";
  run.curves.test = {{1, 10, 0.5, 0.9}};
  EXPECT_THAT(NamesOf(FiguresOf({run}, {})), ElementsAre("time", "version"));
  run.curves.test.clear();
  EXPECT_THAT(FiguresOf({run}, {}), IsEmpty());
}

TEST(RunFiguresTest, CurvesHaveADataSetForEachRunThatMeasured) {
  LabelledRun with = RunOf("with", 3, 1);
  LabelledRun without = RunOf("without", 0, 1);
  without.curves.test = {{1, 1, 0.5, std::nullopt}};
  const std::string plain = ScriptOf(FiguresOf({without}, {}), "time");
  EXPECT_THAT(plain, HasSubstr("against = 'time'\n"));
  EXPECT_THAT(plain, HasSubstr("training = ''\n"));
  EXPECT_THAT(plain, HasSubstr("version loss\n1 1 0.5\nEND\n"));
  EXPECT_THAT(plain, HasSubstr("accuracy = ''\n"));
  with.curves.test = {{1, 1, 0.5, 0.9}};
  const std::string script =
      ScriptOf(FiguresOf({without, with}, {}), "version");
  EXPECT_THAT(script, HasSubstr("against = 'version'\n"));
  EXPECT_THAT(script, HasSubstr("legend[2] = ['without', 'with']"));
  EXPECT_THAT(script, HasSubstr("test = '1 2'\n"));
  EXPECT_THAT(script, HasSubstr("version loss\n1 1 0.5\n\n\n1 1 0.5\nEND\n"));
  EXPECT_THAT(script, HasSubstr("training = '2'\n"));
  EXPECT_THAT(script,
              HasSubstr("version loss\n1 1 1\n2 2 0.5\n3 3 0.3333333\nEND"));
  EXPECT_THAT(script, HasSubstr("accuracy = '2'\n"));
  EXPECT_THAT(script, HasSubstr("version accuracy\n1 1 0.9\nEND\n"));
}

TEST(RunFiguresTest, ARunKeepsItsNumberWhereAnotherHasNothingToShow) {
  // The first has no staleness; colours go by these numbers.
  LabelledRun first;
  first.label = "first";
  const auto figures = FiguresOf({first, RunOf("second", 3, 1)}, {});
  EXPECT_THAT(ScriptOf(figures, "time"), HasSubstr("training = '2'\n"));
  const std::string script = ScriptOf(figures, "staleness");
  EXPECT_THAT(script, HasSubstr("shares = '2'\n"));
  EXPECT_THAT(script, HasSubstr("legend[1] = ['second (mean 0.00)']"));
}

TEST(RunFiguresTest, EveryValueOfAShortHistogramHasItsBar) {
  LabelledRun run;
  run.label = "a";
  run.curves.staleness = {2, 1, 0, 1};
  const std::string script = ScriptOf(FiguresOf({run}, {}), "staleness");
  EXPECT_THAT(script, HasSubstr("percentage\n0 50\n1 25\n2 0\n3 25\nEND"));
  EXPECT_THAT(script, HasSubstr("bin_width = 1\nlast_is_open = 0\n"));
  EXPECT_THAT(script, HasSubstr("a (mean 1.00)"));
}

TEST(RunFiguresTest, AWideHistogramHasNoMoreBarsThanCanBeToldApart) {
  LabelledRun run;
  run.label = "a";
  run.curves.staleness.assign(96, 1);
  // Four values a bar; the last four are a tail.
  const std::string script = ScriptOf(FiguresOf({run}, {}), "staleness");
  EXPECT_THAT(script, HasSubstr("bin_width = 4\nlast_is_open = 1\n"));
  EXPECT_THAT(script, HasSubstr("\n0 4.166667\n1 4.166667\n"));
  EXPECT_THAT(script, HasSubstr("\n22 8.333333\nEND"));
}

TEST(RunFiguresTest, TheLastBarHoldsALongTail) {
  LabelledRun run;
  run.label = "a";
  run.curves.staleness.assign(500, 0);
  run.curves.staleness[0] = 994;
  run.curves.staleness[3] = 5;
  run.curves.staleness[499] = 1;
  LabelledRun other = run;
  other.curves.staleness = {50, 40, 10};
  const std::string script = ScriptOf(FiguresOf({run, other}, {}), "staleness");
  EXPECT_THAT(script, HasSubstr("bin_width = 1\nlast_is_open = 1\n"));
  EXPECT_THAT(script,
              HasSubstr("\n0 99.4\n1 0\n2 0.6\n\n\n0 50\n1 40\n2 10\n"));
}

TEST(RunFiguresTest, TimelinesShareAScaleUnlessOneWouldBeABlur) {
  const LabelledRun slow = RunOf("slow", 10, 1);
  const FigureOptions three{.updates = 3};
  EXPECT_THAT(
      ScriptOf(FiguresOf({slow, RunOf("fast", 50, 0.5)}, three), "timeline"),
      HasSubstr("ends[2] = [3, 3]"));
  EXPECT_THAT(
      ScriptOf(FiguresOf({slow, RunOf("fast", 50, 0.01)}, three), "timeline"),
      HasSubstr("ends[2] = [3, 0.03]"));
}

TEST(RunFiguresTest, ATimelineHasARowForEachBarAndWaitsComeFirst) {
  LabelledRun run = RunOf("a", 2, 1);
  run.run.policy = "SYNC";
  for (const double at : {0.25, 1.25}) {
    proto::LogRecord task;
    task.set_seconds(at);
    task.mutable_task()->set_worker(7);
    run.run.log->records.push_back(task);
  }
  const std::string script =
      ScriptOf(FiguresOf({run}, {.updates = 2, .workers = 16}), "timeline");
  EXPECT_THAT(script, HasSubstr("panel_titles[1] = ['a: SYNC']"));
  EXPECT_THAT(script, HasSubstr("workers[1] = ['0 7']"));
  EXPECT_THAT(script, HasSubstr("activities = 'waits applied unfinished'"));
  EXPECT_THAT(script, HasSubstr("version\n1 waits 0 0.25 0\n"
                                "0 applied 0 1 1\n0 applied 1 2 2\n"
                                "1 unfinished 0.25 1.25 0\n"
                                "1 unfinished 1.25 2 0\nEND\n"));
  EXPECT_THAT(script, HasSubstr("# seconds\n1\n2\nEND\n"));
  EXPECT_THAT(
      ScriptOf(FiguresOf({run}, {.updates = 2, .workers = 1}), "timeline"),
      HasSubstr("['a: SYNC, 1 of 2 workers']"));
}

}  // namespace
}  // namespace sluice
