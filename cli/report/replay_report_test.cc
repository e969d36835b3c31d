#include "cli/report/replay_report.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace sluice {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

ReplayReport Same() {
  ReplayReport report;
  report.version = Version(80);
  report.gradients = 160;
  report.weights_sha256 = report.recorded_sha256 = "abc";
  return report;
}

ReplayReport Different() {
  ReplayReport report = Same();
  report.recorded_sha256 = "def";
  report.difference.update = Version(35);
  report.difference.gradient =
      "worker 1, mini-batch 3: loss 2 in the log, 1 "
      "recomputed";
  report.difference.version = Version(40);
  report.difference.agrees = Version(30);
  report.difference.tensor = "dense0.weight";
  return report;
}

TEST(ReplayReportTest, TheSameBitsAreSaid) {
  EXPECT_THAT(DescribeReplay(Same()), HasSubstr("the same bits"));
  const auto json = nlohmann::json::parse(ReplayJson(Same()));
  EXPECT_EQ(json["same"], true);
  EXPECT_EQ(json["version"], 80);
  EXPECT_EQ(json["weights_sha256"], "abc");
  EXPECT_TRUE(json["first_version"].is_null());
}

TEST(ReplayReportTest, ADifferenceNamesUpdateVersionAndTensor) {
  const std::string text = DescribeReplay(Different());
  EXPECT_THAT(text, Not(HasSubstr("the same bits")));
  EXPECT_THAT(text, HasSubstr("recorded def"));
  EXPECT_THAT(text, HasSubstr("differs in the update to version 35: worker 1"));
  EXPECT_THAT(text, HasSubstr("differs at version 40 in dense0.weight; version "
                              "30 agrees"));
  const auto json = nlohmann::json::parse(ReplayJson(Different()));
  EXPECT_EQ(json["same"], false);
  EXPECT_EQ(json["first_update"], 35);
  EXPECT_EQ(json["first_version"], 40);
  EXPECT_EQ(json["tensor"], "dense0.weight");
}

TEST(ReplayReportTest, WhatTheLogHasLostIsSaid) {
  ReplayReport report = Same();
  report.torn = {.path = "run/commit_log", .offset = 4000, .bytes = 96};
  EXPECT_TRUE(report.same());
  EXPECT_THAT(DescribeReplay(report),
              HasSubstr("run/commit_log: the last 96 bytes, from byte 4000"));
  const auto json = nlohmann::json::parse(ReplayJson(report));
  EXPECT_EQ(json["torn"]["bytes"], 96);
  EXPECT_TRUE(nlohmann::json::parse(ReplayJson(Same()))["torn"].is_null());
}

TEST(ReplayReportTest, ARunWithoutAHashIsTheSameAsFarAsItWasRecorded) {
  ReplayReport report = Same();
  report.recorded_sha256 = "";
  EXPECT_TRUE(report.same());
  EXPECT_THAT(DescribeReplay(report), HasSubstr("has no hash"));
  EXPECT_TRUE(
      nlohmann::json::parse(ReplayJson(report))["recorded_sha256"].is_null());
}

TEST(ReplayReportTest, ARunThatRecordedNoWeightsHasTheSameLosses) {
  ReplayReport report = Same();
  report.recorded_sha256 = "";
  report.digests = 0;
  EXPECT_TRUE(report.same());
  EXPECT_THAT(DescribeReplay(report),
              testing::EndsWith("\nthe same losses; of the weights the run has "
                                "recorded nothing\n"));
}

}  // namespace
}  // namespace sluice
