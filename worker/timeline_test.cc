#include "worker/timeline.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <sstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/key_proto.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "spdlog/sinks/ostream_sink.h"
#include "spdlog/spdlog.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;

class TimelineTest : public ::testing::Test {
 protected:
  TimelineTest() {
    std::filesystem::remove(path_);
    *task_.mutable_key() =
        KeyToProto({Generation(2), WorkerId(3), Incarnation(1), Sequence(9)});
    task_.set_first_batch(40);
    task_.set_batches(1);
    task_.set_version(7);
  }

  // The lines, which lack the array's end.
  nlohmann::json Events() {
    std::ifstream file(path_);
    std::string text(std::istreambuf_iterator<char>(file), {});
    EXPECT_TRUE(text.ends_with(",\n")) << text;
    return nlohmann::json::parse(text.substr(0, text.size() - 2) + "]");
  }
  // A task that spends 2 ms in pull, 5 in forward, 4 and 1 in backward, 3 in
  // push.
  TaskProgress Progress() {
    absl::Time now = begin_;
    TaskProgress progress(now);
    progress.Enter(Stage::kForward, now += absl::Milliseconds(2));
    progress.Enter(Stage::kBackward, now += absl::Milliseconds(5));
    progress.Enter(Stage::kBackward, now += absl::Milliseconds(4));
    progress.Enter(Stage::kPush, now += absl::Milliseconds(1));
    progress.End(now += absl::Milliseconds(3));
    return progress;
  }

  const std::string path_ = testing::TempDir() + "/timeline.json";
  const absl::Time begin_ = absl::FromUnixSeconds(1700000000);
  proto::Task task_;
};

TEST_F(TimelineTest, ATaskIsOneEventAndEachOfItsStagesOneWithin) {
  (*Timeline::Open(path_, WorkerId(3)))->Add(task_, Progress(), "delivered");
  const nlohmann::json events = Events();
  ASSERT_EQ(events.size(), 6);
  EXPECT_EQ(events[0]["name"], "process_name");
  EXPECT_EQ(events[0]["args"]["name"], "worker 3");
  EXPECT_EQ(events[1]["args"]["outcome"], "delivered");
  EXPECT_EQ(events[1]["args"]["first_batch"], 40);
  EXPECT_EQ(events[1]["args"]["version"], 7);
  double begin = 1700000000e6;
  EXPECT_EQ(events[1]["ts"], begin);  // Since 1970, to half a microsecond.
  EXPECT_EQ(events[1]["dur"], 15e3);
  const std::pair<const char*, double> stages[] = {
      {"pull", 2e3}, {"forward", 5e3}, {"backward", 5e3}, {"push", 3e3}};
  for (int i = 0; i < 4; ++i) {
    const nlohmann::json& stage = events[2 + i];
    EXPECT_EQ(stage["name"], stages[i].first);
    EXPECT_NEAR(stage["ts"], begin, 0.5) << stage["name"];
    EXPECT_EQ(stage["dur"], stages[i].second) << stage["name"];
    EXPECT_EQ(stage["pid"], 3);
    begin += stages[i].second;
  }
}

TEST_F(TimelineTest, WorkersAndTheirNextLivesAddToOneFile) {
  for (const int worker : {0, 1, 0}) {
    (*Timeline::Open(path_, WorkerId(worker)))
        ->Add(task_, Progress(), "cancelled");
  }
  const nlohmann::json events = Events();
  ASSERT_EQ(events.size(), 3 * 6);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(events[6 * i]["pid"], i % 2);
}

TEST_F(TimelineTest, AFileThatCannotBeWrittenToIsNamed) {
  const auto timeline = Timeline::Open("/nowhere/timeline.json", WorkerId(0));
  EXPECT_EQ(timeline.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(timeline.status().message(), HasSubstr("/nowhere/timeline.json"));
}

TEST_F(TimelineTest, AFullDiskEndsTheRecordingAndNothingElse) {
  std::ostringstream log;
  const auto usual = spdlog::default_logger();
  spdlog::set_default_logger(std::make_shared<spdlog::logger>(
      "test", std::make_shared<spdlog::sinks::ostream_sink_st>(log)));
  const auto timeline = Timeline::Open("/dev/full", WorkerId(0));
  ASSERT_TRUE(timeline.ok()) << timeline.status();
  (*timeline)->Add(task_, Progress(), "delivered");
  (*timeline)->Add(task_, Progress(), "delivered");
  spdlog::set_default_logger(usual);
  EXPECT_THAT(log.str(), HasSubstr("event=timeline_ended path=/dev/full "
                                   "reason=\"No space left on device\""));
  EXPECT_EQ(log.str().find("timeline_ended"),
            log.str().rfind("timeline_ended"));
}

}  // namespace
}  // namespace sluice
