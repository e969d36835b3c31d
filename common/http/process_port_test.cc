#include "common/http/process_port.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "absl/strings/str_split.h"

namespace sluice {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;

class ProcessPortTest : public testing::Test {
 protected:
  ProcessPortTest() {
    auto opened = ProcessPort::Open("127.0.0.1:0", "worker", {"3"});
    EXPECT_TRUE(opened.ok()) << opened.status();
    port_ = *std::move(opened);
  }
  HttpAnswer Get(const std::string& path) {
    return port_->http()->pages().at(path)(
        [](const std::string&) { return ""; });
  }
  std::vector<std::string> Metrics() {
    return absl::StrSplit(Get("/metrics").body, '\n');
  }

  std::unique_ptr<ProcessPort> port_;
};

TEST_F(ProcessPortTest, IsReadyWhileTheProcessTakesPart) {
  EXPECT_EQ(Get("/healthz").code, 200);
  EXPECT_EQ(Get("/readyz").code, 503);
  EXPECT_EQ(Get("/readyz").body, "worker 3 has not joined the run\n");
  port_->Joined([] { return CounterMap(); });
  EXPECT_EQ(Get("/readyz").code, 200);
  port_->Parted();
  EXPECT_EQ(Get("/readyz").code, 503);
  EXPECT_EQ(Get("/healthz").code, 200);
}

TEST_F(ProcessPortTest, CountersHaveTheNamesThatTheLeadGivesThem) {
  EXPECT_THAT(Metrics(), Contains("sluice_worker_joined{worker=\"3\"} 0"));
  int64_t pulled = 1;
  port_->Joined([&] {
    return CounterMap{{"compute_microseconds_total", 1500000},
                      {"pulls_total", pulled++},
                      {"certificate_seconds_left", 60}};
  });
  EXPECT_THAT(Metrics(), Contains("sluice_worker_pulls_total{worker=\"3\"} 1"));
  const auto lines = Metrics();
  EXPECT_THAT(lines, Contains("sluice_worker_pulls_total{worker=\"3\"} 2"));
  EXPECT_THAT(
      lines, Contains("sluice_worker_compute_seconds_total{worker=\"3\"} 1.5"));
  EXPECT_THAT(
      lines,
      Contains("sluice_worker_certificate_expires_seconds{worker=\"3\"} 60"));
  EXPECT_THAT(lines, Contains("sluice_worker_joined{worker=\"3\"} 1"));
}

TEST_F(ProcessPortTest, WhatItHadCountedStaysUntilItJoinsAgain) {
  port_->Joined([] { return CounterMap{{"pulls_total", 7}}; });
  port_->Parted();
  EXPECT_THAT(Metrics(), Contains("sluice_worker_pulls_total{worker=\"3\"} 7"));
  port_->Parted();
  EXPECT_THAT(Metrics(), Contains("sluice_worker_pulls_total{worker=\"3\"} 7"));
  port_->Joined([] { return CounterMap{{"pulls_total", 0}}; });
  EXPECT_THAT(Metrics(), Contains("sluice_worker_pulls_total{worker=\"3\"} 0"));
}

TEST_F(ProcessPortTest, ItIsReadyWithAllItsSlots) {
  const auto port = ProcessPort::Open("127.0.0.1:0", "worker", {"1", "3"});
  ASSERT_TRUE(port.ok()) << port.status();
  const auto get = [&](const std::string& path) {
    return (*port)->http()->pages().at(path)(
        [](const std::string&) { return ""; });
  };
  (*port)->Joined([] { return CounterMap{{"pulls_total", 7}}; }, 1);
  EXPECT_EQ(get("/readyz").code, 503);
  EXPECT_EQ(get("/readyz").body, "worker 1 has not joined the run\n");
  (*port)->Joined([] { return CounterMap{{"pulls_total", 8}}; }, 0);
  EXPECT_EQ(get("/readyz").body, "joined\n");
  const std::string body = get("/metrics").body;
  EXPECT_THAT(body, HasSubstr("sluice_worker_pulls_total{worker=\"1\"} 8"));
  EXPECT_THAT(body, HasSubstr("sluice_worker_pulls_total{worker=\"3\"} 7"));
}

TEST_F(ProcessPortTest, ItsLabelIsTheNumberThatTheLeadGaveIt) {
  const auto port = ProcessPort::Open("127.0.0.1:0", "worker", {"any"});
  ASSERT_TRUE(port.ok()) << port.status();
  (*port)->Rename("5");
  (*port)->Joined([] { return CounterMap{{"pulls_total", 7}}; });
  const std::string body =
      (*port)
          ->http()
          ->pages()
          .at("/metrics")([](const std::string&) { return ""; })
          .body;
  EXPECT_THAT(body, HasSubstr("sluice_worker_joined{worker=\"5\"} 1"));
  EXPECT_THAT(body, HasSubstr("sluice_worker_pulls_total{worker=\"5\"} 7"));
  EXPECT_THAT(body, Not(HasSubstr("any")));
}

TEST_F(ProcessPortTest, HasNoPageForPeople) {
  EXPECT_THAT(port_->http()->pages(), Not(Contains(testing::Key("/"))));
}

TEST(ProcessPortFlagTest, WithoutAFlagNothingListens) {
  const auto port = ProcessPort::Open("", "shard", {"1"});
  ASSERT_TRUE(port.ok()) << port.status();
  EXPECT_EQ((*port)->http(), nullptr);
  (*port)->Joined([] { return CounterMap(); });
  (*port)->Parted();
}

TEST(ProcessPortFlagTest, ABadAddressIsNamed) {
  const auto port = ProcessPort::Open("8080", "shard", {"1"});
  EXPECT_TRUE(absl::IsInvalidArgument(port.status()));
  EXPECT_THAT(std::string(port.status().message()), HasSubstr("--http: "));
}

}  // namespace
}  // namespace sluice
