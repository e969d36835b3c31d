#include "cli/report/job/advise_report.h"

#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/job/resolved_job.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace sluice {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr char kJob[] =
    "name: \"small\" cluster { workers: 4 } sync { policy: K_SYNC k: 2 } "
    "optimizer { learning_rate: 0.1 } data { linear_regression { features: 3 } "
    "} model { layer { dense { units: 1 } } } stop { updates: 1 }";

ResolvedJob Job(const std::vector<std::string>& overrides = {}) {
  auto job = ParseJob(kJob, "test", overrides);
  EXPECT_TRUE(job.ok()) << job.status();
  return *std::move(job);
}

Race::Trial TrialOf(double reached, double error) {
  Race::Trial trial;
  trial.horizon = 2;
  if (reached > 0) trial.reached = reached;
  trial.error = error;
  return trial;
}

// Four choices, one rate each, on `seeds` seeds: K_SYNC takes 1 s, SYNC
// `sync` s, ASYNC 2 s, and K_BATCH_SYNC does not get there.
AdviceReport Report(double sync, int seeds = 3) {
  AdviceReport report;
  report.job = {"small.textproto",
                "--set",
                "data.batch_size=8",
                "--set",
                "a b.textproto",
                "--set",
                "",
                "--set",
                "it's"};
  report.target.loss = 0.1;
  report.seeds = 3;
  report.budget = absl::Seconds(60);
  Advice& advice = report.advice;
  advice.choices =
      ChoicesFor(Job().job, {.policies = {proto::K_SYNC, proto::SYNC,
                                          proto::ASYNC, proto::K_BATCH_SYNC},
                             .ks = {2}});
  EXPECT_EQ(advice.choices.size(), 4);
  for (int c = 0; c < 4; ++c) {
    AdviceEntrant entrant;
    entrant.choice = c;
    entrant.learning_rate = 0.2;
    entrant.overrides = {
        absl::StrCat("sync={", FormatSyncLine(advice.choices[c].sync), "}"),
        "optimizer.learning_rate=0.2"};
    advice.entrants.push_back(entrant);
  }
  advice.race = Race({.entrants = 4, .seeds = 3, .first_horizon = 2});
  for (int s = 0; s < seeds; ++s) {
    std::vector<Race::Trial> trials;
    for (const int e : advice.race.heat()->entrants) {
      const std::string& name = advice.choices[e].name;
      const double time = name == "SYNC"            ? sync + (s == 1 ? -0.2 : 0)
                          : name == "ASYNC"         ? 2 - 0.01 * s
                          : name.starts_with("K_S") ? 1
                                                    : 0;
      trials.push_back(TrialOf(time, time > 0 ? 0.1 : 0.4));
    }
    advice.race.Finish(trials);
  }
  return report;
}

nlohmann::json Json(const AdviceReport& report) {
  std::ostringstream out;
  PrintAdvice(Job(), report, /*json=*/true, out);
  return nlohmann::json::parse(out.str());
}

std::string Text(const AdviceReport& report) {
  std::ostringstream out;
  PrintAdvice(Job(), report, /*json=*/false, out);
  return out.str();
}

TEST(AdviseReportTest, RanksTheChoicesAndSaysWhyEachIsWhereItIs) {
  const auto json = Json(Report(1.1));
  std::vector<std::string> rows;
  for (const auto& choice : json["choices"]) {
    rows.push_back(absl::StrCat(choice["choice"].get<std::string>(), ": ",
                                choice["verdict"].get<std::string>()));
  }
  EXPECT_THAT(
      rows, testing::ElementsAre("K_SYNC, K 2 (the job's): first", "SYNC: tie",
                                 "ASYNC: slower", "K_BATCH_SYNC, K 2: behind"));
  EXPECT_EQ(json["recommended"]["ties"], nlohmann::json({"SYNC"}));
  EXPECT_EQ(json["recommended"]["time_to_target"], 1);
  EXPECT_EQ(json["choices"][3]["error"], 0.4);
  EXPECT_EQ(json["choices"][3]["time_to_target"], nullptr);
  EXPECT_EQ(json["untried"], "");
}

TEST(AdviseReportTest, TheBlockIsOneThatAJobMayHave) {
  const auto json = Json(Report(0.9));
  const std::string block = json["recommended"]["sync_block"];
  EXPECT_EQ(block, "sync {\n  policy: SYNC\n}\n");
  EXPECT_THAT(Text(Report(0.9)), HasSubstr("\n\n" + block));
  const std::string other = Json(Report(1.1))["recommended"]["sync_block"];
  std::string text = kJob;
  const std::string own = "sync { policy: K_SYNC k: 2 }";
  text.replace(text.find(own), own.size(), other);
  EXPECT_TRUE(ParseJob(text, "test", {}).ok());
}

TEST(AdviseReportTest, SaysWhatAPersonNeeds) {
  const std::string text = Text(Report(1.1));
  EXPECT_THAT(text, HasSubstr("to test loss 0.1"));
  EXPECT_THAT(text, HasSubstr("recommended: K_SYNC, K 2 (the job's), learning "
                              "rate 0.2 (the job's is 0.1)"));
  EXPECT_THAT(text, HasSubstr("no slower, as far as can be told: SYNC\n"));
  EXPECT_THAT(text, HasSubstr("dropped at 2 s: error 0.4"));
  EXPECT_THAT(
      text, HasSubstr("./sluice train small.textproto --set data.batch_size=8 "
                      "--set 'a b.textproto' --set '' --set 'it'\\''s' --set "
                      "'sync={policy: K_SYNC k: 2}' --set "
                      "optimizer.learning_rate=0.2\n"));
  EXPECT_THAT(text, Not(HasSubstr("budget")));
}

TEST(AdviseReportTest, SaysWhatTheBudgetLeftUntried) {
  EXPECT_THAT(Text(Report(1.1, 1)),
              HasSubstr("the budget of 60 s is used up; not tried: seeds 2 to "
                        "3 for 3 choices at a rate"));
  // One seed tells nothing apart.
  EXPECT_EQ(Json(Report(1.1, 1))["choices"][2]["verdict"], "tie");
  const std::string none = Text(Report(1.1, 0));
  EXPECT_THAT(none, HasSubstr("no advice"));
  EXPECT_THAT(none, HasSubstr("not tried"));
}

TEST(AdviseFigureTest, HasACurveForEachChoiceThatWasMeasured) {
  AdviceReport report = Report(1.1);
  EXPECT_EQ(AdviceFigure(Job(), report), std::nullopt);
  for (AdviceEntrant& entrant : report.advice.entrants) {
    SimulatedRun::Measured measured;
    measured.seconds = 0.5;
    measured.evaluation.loss = 0.3;
    entrant.curve = {measured};
  }
  std::vector<AdviceEntrant>& entrants = report.advice.entrants;
  entrants[1].curve[0].evaluation.loss = HUGE_VAL;
  const auto figure = AdviceFigure(Job(), report);
  ASSERT_TRUE(figure.has_value());
  EXPECT_EQ(figure->name, "advice");
  EXPECT_THAT(figure->script, HasSubstr("target = 0.1\n"));
  // What is not finite is left out.
  EXPECT_THAT(figure->script,
              HasSubstr("error\n0.5 0.3\n\n\n0.5 0.3\n\n\n0.5 0.3\nEND"));
  EXPECT_THAT(figure->script, HasSubstr("'ASYNC, rate 0.2'"));
  EXPECT_THAT(figure->script, Not(HasSubstr("'SYNC, rate 0.2'")));
}

TEST(AdviseFigureTest, ChoicesOfOnePolicyHaveOneColour) {
  AdviceReport report = Report(1.1);
  for (AdviceEntrant& entrant : report.advice.entrants) {
    entrant.curve.emplace_back().seconds = 0.5;
  }
  for (Choice& choice : report.advice.choices) {
    choice.sync.set_policy(proto::ASYNC);
  }
  const auto figure = AdviceFigure(Job(), report);
  const int first = proto::ASYNC;
  EXPECT_THAT(figure->script,
              HasSubstr(absl::StrCat("style[4] = [", first, ", ", first + 8,
                                     ", ", first + 16, ", ", first + 24, "]")));
  EXPECT_THAT(figure->script, HasSubstr("given_up[4] = [0, 0, 0, 1]"));
}

}  // namespace
}  // namespace sluice
