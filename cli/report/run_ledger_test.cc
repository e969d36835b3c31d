#include "cli/report/run_ledger.h"

#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace sluice {
namespace {

using ::testing::HasSubstr;

Ledger TwoGenerations() {
  Ledger ledger;
  ledger.generations = {{.generation = Generation(1),
                         .decided = Version(25),
                         .kept = Version(20),
                         .tasks = 52,
                         .applied = 40,
                         .cancelled = 1,
                         .lost = 11},
                        {.generation = Generation(3),
                         .parent = Generation(1),
                         .restored = Version(20),
                         .decided = Version(50),
                         .kept = Version(50),
                         .tasks = 63,
                         .applied = 60,
                         .dropped = 2,
                         .rejected = 1}};
  ledger.never_began = {Generation(2)};
  ledger.version = Version(50);
  ledger.mini_batches = 100;
  ledger.samples = 6400;
  return ledger;
}

TEST(RunLedgerTest, APersonSeesEveryGenerationAndTheSum) {
  EXPECT_EQ(
      DescribeLedger(TwoGenerations()),
      "generation goes on from versions          tasks   applied cancelled  "
      "dropped rejected     lost\n"
      "1          -            0 to 25 (-5)         52        40         1     "
      "   0        0       11\n"
      "3          1            20 to 50             63        60         0     "
      "   2        1        0\n"
      "all                     0 to 50             115       100         1     "
      "   2        1       11\n"
      "generation 2 was taken and never began\n"
      "100 mini-batches, 6400 samples in the weights of version 50\n"
      "exact: every gradient ended once\n");
  Ledger wrong = TwoGenerations();
  wrong.errors = {"generation 3: task w0/i1/s9 is issued twice"};
  EXPECT_THAT(DescribeLedger(wrong),
              HasSubstr("generation 3: task w0/i1/s9 is issued twice\nNOT "
                        "exact\n"));
}

TEST(RunLedgerTest, WhatALogHasLostIsSaid) {
  Ledger ledger = TwoGenerations();
  ledger.torn = {{.path = "run/commit_log-3", .offset = 4000, .bytes = 96}};
  EXPECT_THAT(DescribeLedger(ledger),
              HasSubstr("run/commit_log-3: the last 96 bytes, from byte 4000 "
                        "on, are no whole record: what was written there is "
                        "missing\n"));
  const auto json = nlohmann::json::parse(LedgerJson(ledger));
  EXPECT_EQ(json["torn"][0]["offset"], 4000);
  EXPECT_EQ(json["torn"][0]["bytes"], 96);
}

TEST(RunLedgerTest, AFileInPlaceOfTheFolderIsNamed) {
  const std::string file = absl::StrCat(testing::TempDir(), "/summary.json");
  std::ofstream{file} << "{}";
  EXPECT_EQ(ReadRunLedger(file).status().message(),
            absl::StrCat(file, ": is no folder"));
}

TEST(RunLedgerTest, AProgramReadsTheSame) {
  const auto json = nlohmann::json::parse(LedgerJson(TwoGenerations()));
  EXPECT_EQ(json["exact"], true);
  EXPECT_EQ(json["mini_batches"], 100);
  EXPECT_EQ(json["gradients"]["tasks"], 115);
  EXPECT_EQ(json["gradients"]["lost"], 11);
  EXPECT_EQ(json["generations"][0]["updates_lost"], 5);
  EXPECT_EQ(json["generations"][1]["restored_version"], 20);
  EXPECT_EQ(json["never_began"], nlohmann::json({2}));
  Ledger wrong = TwoGenerations();
  wrong.errors = {"what is wrong"};
  EXPECT_EQ(nlohmann::json::parse(LedgerJson(wrong))["exact"], false);
}

}  // namespace
}  // namespace sluice
