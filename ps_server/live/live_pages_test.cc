#include "ps_server/live/live_pages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
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
  using Pages = std::map<std::string, HttpPage>;
  static HttpAnswer GetFrom(const Pages& pages, const std::string& path,
                            const std::string& since = "") {
    return pages.at(path)([since](const std::string& name) {
      return name == "since" ? since : "";
    });
  }
  HttpAnswer Get(const std::string& path, const std::string& since = "") {
    return GetFrom(pages_, path, since);
  }

  // Longer than reading takes; reached only when something hangs.
  static constexpr absl::Duration kPatience = absl::Seconds(30);

  absl::StatusOr<proto::JobStatus> status_ = proto::JobStatus();
  const Pages pages_ =
      LivePages([this] { return status_; }, testing::TempDir(), kPatience);
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
  for (const std::string state : {"missing", "suspect", "left"}) {
    status_->mutable_worker(0)->set_state(state);
    const HttpAnswer answer = Get("/readyz");
    EXPECT_EQ(answer.code, 503);
    EXPECT_EQ(answer.body, absl::StrCat("worker 0 is ", state, "\n"));
  }
  status_->mutable_worker(0)->set_extra(true);
  EXPECT_EQ(Get("/readyz").code, 200) << "the run does without it";
  status_->set_phase("failed");
  status_->set_message("the loss is not finite");
  EXPECT_EQ(Get("/readyz").code, 503);
  EXPECT_EQ(Get("/readyz").body, "the loss is not finite\n");
}

// A FIFO stalls whoever opens it, until somebody writes.
TEST_F(LivePagesTest, ARunFolderThatStallsHoldsUpNoPage) {
  const std::string folder = absl::StrCat(testing::TempDir(), "/stalls");
  std::filesystem::create_directory(folder);
  const std::string metrics = absl::StrCat(folder, "/metrics.jsonl");
  std::ofstream(metrics) << "{\"seconds\": 1}\n";
  const Pages pages =
      LivePages([this] { return status_; }, folder, absl::Milliseconds(10));
  const auto points = [&] {
    return json::parse(GetFrom(pages, "/api/state").body)["points"].size();
  };
  while (points() < 1) {
  }
  std::filesystem::remove(metrics);
  ASSERT_EQ(mkfifo(metrics.c_str(), 0600), 0);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(points(), 1) << "what had been read before";
    EXPECT_EQ(GetFrom(pages, "/healthz").code, 200);
  }
  // It answers again.
  std::filesystem::rename(metrics, metrics + ".fifo");
  std::ofstream(metrics) << "{\"seconds\": 1}\n{\"seconds\": 2}\n";
  std::fstream(metrics + ".fifo").close();  // Both ends: it waits for nobody.
  while (points() < 2) {
  }
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
