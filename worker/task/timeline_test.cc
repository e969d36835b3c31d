#include "worker/task/timeline.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <sstream>
#include <string>

#include "common/key_proto.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "spdlog/sinks/ostream_sink.h"
#include "third_party/spdlog.h"
#include "worker/testing/fakes.h"

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
  // push, while weights travel for 4 ms from 1 ms on and its gradient is copied
  // for 2 ms from 8 ms on.
  TaskProgress Progress() {
    FakeClock clock;
    clock.Advance(begin_ - clock.Now());
    TaskProgress progress(&clock);
    clock.Advance(absl::Milliseconds(2));
    progress.Enter(Stage::kForward);
    clock.Advance(absl::Milliseconds(5));
    progress.Enter(Stage::kBackward);
    clock.Advance(absl::Milliseconds(4));
    progress.Enter(Stage::kBackward);
    clock.Advance(absl::Milliseconds(1));
    progress.Enter(Stage::kPush);
    clock.Advance(absl::Milliseconds(3));
    progress.End();
    progress.Travelled({Transfer::kPull, begin_ + absl::Milliseconds(1),
                        begin_ + absl::Milliseconds(5)});
    progress.Travelled({Transfer::kToHost, begin_ + absl::Milliseconds(8),
                        begin_ + absl::Milliseconds(10)});
    return progress;
  }

  const std::string path_ = testing::TempDir() + "/timeline.json";
  // Lines that name the worker and its tracks; the task, four stages, and two
  // for what travels.
  static constexpr int kNames = 6, kOfATask = 7;
  static constexpr double kBegin = 1700000000e6;
  const absl::Time begin_ = absl::FromUnixSeconds(1700000000);
  proto::Task task_;
};

TEST_F(TimelineTest, ATaskIsOneEventAndEachOfItsStagesOneWithin) {
  (*Timeline::Open(path_, {3, "worker 3"}))
      ->Add(task_, Progress(), "delivered");
  const nlohmann::json events = Events();
  ASSERT_EQ(events.size(), kNames + kOfATask);
  EXPECT_EQ(events[0]["name"], "process_name");
  EXPECT_EQ(events[0]["args"]["name"], "worker 3");
  const nlohmann::json& whole = events[kNames];
  EXPECT_EQ(whole["args"]["outcome"], "delivered");
  EXPECT_EQ(whole["args"]["first_batch"], 40);
  EXPECT_EQ(whole["args"]["version"], 7);
  double begin = kBegin;
  EXPECT_EQ(whole["ts"], begin);  // Since 1970, to half a microsecond.
  EXPECT_EQ(whole["dur"], 15e3);
  const std::pair<const char*, double> stages[] = {
      {"pull", 2e3}, {"forward", 5e3}, {"backward", 5e3}, {"push", 3e3}};
  for (int i = 0; i < 4; ++i) {
    const nlohmann::json& stage = events[kNames + 1 + i];
    EXPECT_EQ(stage["name"], stages[i].first);
    EXPECT_NEAR(stage["ts"], begin, 0.5) << stage["name"];
    EXPECT_EQ(stage["dur"], stages[i].second) << stage["name"];
    EXPECT_EQ(stage["pid"], 3);
    EXPECT_EQ(stage["tid"], 0);
    begin += stages[i].second;
  }
}

TEST_F(TimelineTest, WhatTravelsHasTracksOfItsOwnThatSayWhatItIs) {
  (*Timeline::Open(path_, {3, "worker 3"}))
      ->Add(task_, Progress(), "delivered");
  const nlohmann::json events = Events();
  ASSERT_EQ(events.size(), kNames + kOfATask);
  std::map<int, std::string> tracks;
  for (int i = 1; i < kNames; ++i) {
    EXPECT_EQ(events[i]["name"], "thread_name");
    tracks[events[i]["tid"]] = events[i]["args"]["name"];
  }
  EXPECT_EQ(tracks.size(), kNames - 1);
  const nlohmann::json& weights = events[kNames + 5];
  EXPECT_EQ(weights["name"], "weights travel");
  EXPECT_EQ(tracks[weights["tid"]], weights["name"]);
  EXPECT_NEAR(weights["ts"], kBegin + 1e3, 0.5);
  EXPECT_EQ(weights["dur"], 4e3);
  const nlohmann::json& copy = events[kNames + 6];
  EXPECT_EQ(copy["name"], "copy to the host");
  EXPECT_EQ(tracks[copy["tid"]], copy["name"]);
  EXPECT_EQ(copy["dur"], 2e3);
}

TEST_F(TimelineTest, WorkersAndTheirNextLivesAddToOneFile) {
  for (const int worker : {0, 1, 0}) {
    (*Timeline::Open(path_, {worker, "worker"}))
        ->Add(task_, Progress(), "cancelled");
  }
  const nlohmann::json events = Events();
  constexpr int kOfALife = kNames + kOfATask;
  ASSERT_EQ(events.size(), 3 * kOfALife);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(events[kOfALife * i]["pid"], i % 2);
}

TEST_F(TimelineTest, WorkersThatStartTogetherBeginTheArrayOnce) {
  std::ofstream(path_).flush();  // Another has made it, not yet written to it.
  const auto first = Timeline::Open(path_, {0, "worker 0"});
  const auto second = Timeline::Open(path_, {1, "worker 1"});
  EXPECT_EQ(Events().size(), 2 * kNames);
}

TEST_F(TimelineTest, AFileThatCannotBeWrittenToIsNamed) {
  const auto timeline =
      Timeline::Open("/nowhere/timeline.json", {0, "worker 0"});
  EXPECT_EQ(timeline.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(timeline.status().message(), HasSubstr("/nowhere/timeline.json"));
}

TEST_F(TimelineTest, AFullDiskEndsTheRecordingAndNothingElse) {
  std::ostringstream log;
  const auto usual = spdlog::default_logger();
  spdlog::set_default_logger(std::make_shared<spdlog::logger>(
      "test", std::make_shared<spdlog::sinks::ostream_sink_st>(log)));
  const auto timeline = Timeline::Open("/dev/full", {0, "worker 0"});
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
