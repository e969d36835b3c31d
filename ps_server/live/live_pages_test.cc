#include "ps_server/live/live_pages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

namespace sluice {
namespace {

using nlohmann::json;
using testing::HasSubstr;

class LivePagesTest : public testing::Test {
 protected:
  LivePagesTest() {
    std::ofstream(absl::StrCat(testing::TempDir(), "/metrics.jsonl"))
        << "{\"seconds\": 1}\n{\"seconds\": 2}\n";
    status_->set_name("job");
    status_->set_phase("running");
    status_->add_worker()->set_state("computing");
    status_->add_shard()->set_state("serving");
  }
  HttpAnswer Get(const std::string& path, const std::string& since = "") {
    return pages_.at(path)([since](const std::string& name) {
      return name == "since" ? since : "";
    });
  }

  absl::StatusOr<proto::JobStatus> status_ = proto::JobStatus();
  const std::map<std::string, HttpPage> pages_ =
      LivePages([this] { return status_; }, testing::TempDir());
};

TEST_F(LivePagesTest, StateHasTheStatusAndThePointsAfterThoseThatAreKnown) {
  const json state = json::parse(Get("/api/state").body);
  EXPECT_EQ(state["status"]["name"], "job");
  EXPECT_EQ(state["points"].size(), 2);
  const json later = json::parse(Get("/api/state", "1").body);
  ASSERT_EQ(later["points"].size(), 1);
  EXPECT_EQ(later["points"][0]["seconds"], 2);
}

TEST_F(LivePagesTest, OfALargeClusterEachWorkersCountersAreLeftOut) {
  (*status_->mutable_worker(0)->mutable_counters())["retries_total"] = 3;
  const auto counters = [this] {
    return json::parse(
        Get("/api/state").body)["status"]["worker"][0]["counters"];
  };
  while (status_->worker_size() < 100) status_->add_worker();
  EXPECT_EQ(counters()["retries_total"], 3);
  status_->add_worker();
  EXPECT_TRUE(counters().empty());
}

TEST_F(LivePagesTest, BetweenTwoGenerationsTheCurvesStay) {
  status_ = absl::UnavailableError("a generation is over");
  const json state = json::parse(Get("/api/state").body);
  EXPECT_TRUE(state["status"].is_null());
  EXPECT_EQ(state["error"], "a generation is over");
  EXPECT_EQ(state["points"].size(), 2);
  EXPECT_EQ(Get("/metrics").code, 503);
  EXPECT_EQ(Get("/readyz").code, 503);
  EXPECT_EQ(Get("/healthz").code, 200);
}

TEST_F(LivePagesTest, ReadyNamesWhomTheRunLacks) {
  EXPECT_EQ(Get("/readyz").code, 200);
  status_->mutable_worker(0)->set_state("missing");
  const HttpAnswer answer = Get("/readyz");
  EXPECT_EQ(answer.code, 503);
  EXPECT_EQ(answer.body, "worker 0 is missing\n");
}

TEST_F(LivePagesTest, ABadArgumentIsNamed) {
  const HttpAnswer answer = Get("/api/state", "x");
  EXPECT_EQ(answer.code, 400);
  EXPECT_THAT(answer.body, HasSubstr("expected a number, came \"x\""));
}

TEST_F(LivePagesTest, ThePageLoadsOnlyWhatThePortHas) {
  const std::string html = Get("/").body;
  for (const char* file : {"page.css", "page.js", "chart.js"}) {
    EXPECT_THAT(html, HasSubstr(absl::StrCat("\"", file, "\"")));
    EXPECT_GT(Get(absl::StrCat("/", file)).body.size(), 1000) << file;
  }
  EXPECT_THAT(html, testing::Not(HasSubstr("://")));
}

}  // namespace
}  // namespace sluice
