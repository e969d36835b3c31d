#include "cli/plot/trade_off_figure.h"

#include <cmath>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string ScriptOf(const std::vector<TradeOffCurve>& curves,
                     double target = 0.2) {
  return TradeOffFigure("advice", "title", "test error", target, curves).script;
}

TEST(TradeOffFigureTest, HasACurveForEachChoiceAndTheTarget) {
  const std::string script =
      ScriptOf({{.label = "K_SYNC, K 8", .points = {{1, 0.5}, {2, 0.15}}},
                {.label = "SYNC", .colour = 1, .points = {{4, 0.3}}}});
  EXPECT_THAT(script, HasSubstr("$curve0 << END\n1 0.5\n2 0.15\nEND\n"));
  EXPECT_THAT(script, HasSubstr("$curve1 << END\n4 0.3\nEND\n"));
  EXPECT_THAT(script, HasSubstr("'K_SYNC, K 8'"));
  EXPECT_THAT(script, HasSubstr("0.2 with lines"));
  EXPECT_THAT(script, HasSubstr("set xrange [0:4.04]"));
  EXPECT_THAT(script, HasSubstr("set logscale y"));
  EXPECT_THAT(script, HasSubstr("0.1, 0.2, 0.3, 0.5, 0.7, 1, "));
}

TEST(TradeOffFigureTest, ThoseOfOneColourAreDashedDifferently) {
  const std::string script =
      ScriptOf({{.label = "a", .colour = 2, .dash = 0, .points = {{1, 0.5}}},
                {.label = "b", .colour = 2, .dash = 1, .points = {{1, 0.5}}}});
  EXPECT_THAT(script, HasSubstr(LineOf(2)));
  EXPECT_THAT(script, HasSubstr(LineOf(2 + 8)));
  EXPECT_EQ(ColourOf(2), ColourOf(2 + 8));
}

TEST(TradeOffFigureTest, WhatIsNotFiniteIsLeftOutAndZeroHasNoLogarithm) {
  const std::string script =
      ScriptOf({{.label = "nothing", .points = {{1, HUGE_VAL}, {2, NAN}}},
                {.label = "zero", .points = {{1, HUGE_VAL}, {3, 0}}}});
  EXPECT_THAT(script, Not(HasSubstr("$curve0")));
  EXPECT_THAT(script, Not(HasSubstr("nothing")));
  EXPECT_THAT(script, HasSubstr("$curve1 << END\n3 0\nEND\n"));
  EXPECT_THAT(script, Not(HasSubstr("set logscale y")));
}

}  // namespace
}  // namespace sluice
