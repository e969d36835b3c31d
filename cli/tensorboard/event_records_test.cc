#include "cli/tensorboard/event_records.h"

#include <cstring>
#include <map>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/tensorboard.pb.h"

namespace sluice {
namespace {

using tensorboard::Event;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

TEST(Crc32cTest, IsThatOfTheStandard) {
  // RFC 3720, B.4.
  EXPECT_EQ(Crc32c(std::string(32, '\0')), 0x8a9136aau);
  EXPECT_EQ(Crc32c(std::string(32, '\xff')), 0x62a8ab43u);
  EXPECT_EQ(Crc32c("123456789"), 0xe3069283u);
}

TEST(TfRecordTest, HasItsLengthAndTwoChecksums) {
  // As TensorFlow writes a record of three bytes.
  const std::string record = TfRecord("abc");
  ASSERT_EQ(record.size(), 8 + 4 + 3 + 4);
  EXPECT_EQ(record.substr(0, 8), std::string("\3\0\0\0\0\0\0\0", 8));
  EXPECT_EQ(record.substr(12, 3), "abc");
  uint32_t crc;
  std::memcpy(&crc, record.data() + 15, sizeof crc);
  const uint32_t plain = Crc32c("abc");
  EXPECT_EQ(crc, ((plain >> 15) | (plain << 17)) + 0xa282ead8u);
}

std::vector<Event> EventsIn(const std::string& records) {
  std::vector<Event> events;
  for (size_t at = 0; at < records.size();) {
    uint64_t length;
    std::memcpy(&length, records.data() + at, sizeof length);
    EXPECT_TRUE(
        events.emplace_back().ParseFromString(records.substr(at + 12, length)));
    at += 12 + length + 4;
  }
  return events;
}

std::map<std::string, float> ScalarsOf(const Event& event) {
  std::map<std::string, float> scalars;
  for (const auto& value : event.summary().value()) {
    if (value.has_simple_value()) scalars[value.tag()] = value.simple_value();
  }
  return scalars;
}

class EventRecordsTest : public testing::Test {
 protected:
  std::vector<Event> Add(const std::string& line) {
    const auto records = records_.Add(line);
    EXPECT_TRUE(records.ok()) << records.status();
    return EventsIn(records.value_or(""));
  }

  EventRecords records_{1000};
};

TEST_F(EventRecordsTest, AFileBeginsWithItsVersion) {
  const std::vector<Event> events = EventsIn(records_.Head());
  ASSERT_EQ(events.size(), 1);
  EXPECT_EQ(events[0].file_version(), "brain.Event:2");
  EXPECT_EQ(events[0].wall_time(), 1000);
}

TEST_F(EventRecordsTest, EveryNumberIsAScalarAtTheVersion) {
  const auto events = Add(R"({"seconds": 2.5, "version": 7, "loss": 0.5, "k": 3,
              "gradients": {"applied": 4}, "logged": {"a/b": 0.25},
              "checkpoints": {"newest_version": null, "last_error": ""}})");
  ASSERT_EQ(events.size(), 1);
  EXPECT_EQ(events[0].wall_time(), 1002.5);
  EXPECT_EQ(events[0].step(), 7);
  EXPECT_THAT(ScalarsOf(events[0]),
              ElementsAre(Pair("gradients/applied", 4), Pair("k", 3),
                          Pair("logged/a/b", 0.25), Pair("loss", 0.5)));
}

TEST_F(EventRecordsTest, AnEvaluationIsAtTheVersionThatWasEvaluated) {
  const auto events =
      Add(R"({"seconds": 2, "version": 7, "loss": 0.5, "test_version": 5,
              "test_loss": 0.75, "test_logged": {"f1": 0.5}})");
  ASSERT_EQ(events.size(), 2);
  EXPECT_THAT(ScalarsOf(events[0]), ElementsAre(Pair("loss", 0.5)));
  EXPECT_EQ(events[1].step(), 5);
  EXPECT_THAT(ScalarsOf(events[1]), ElementsAre(Pair("test_logged/f1", 0.5),
                                                Pair("test_loss", 0.75)));
}

TEST_F(EventRecordsTest, StalenessIsThatOfTheGradientsSinceTheLineBefore) {
  Add(R"({"seconds": 1, "version": 1, "staleness_histogram": [4, 1]})");
  const auto events =
      Add(R"({"seconds": 2, "version": 2, "staleness_histogram": [4, 3, 1]})");
  ASSERT_EQ(events.size(), 1);
  ASSERT_EQ(events[0].summary().value_size(), 1);
  EXPECT_EQ(events[0].summary().value(0).tag(), "staleness");
  const auto& histogram = events[0].summary().value(0).histo();
  EXPECT_EQ(histogram.min(), 1);
  EXPECT_EQ(histogram.max(), 2);
  EXPECT_EQ(histogram.num(), 3);
  EXPECT_EQ(histogram.sum(), 2 * 1 + 1 * 2);
  EXPECT_EQ(histogram.sum_squares(), 2 * 1 + 1 * 4);
  EXPECT_THAT(histogram.bucket_limit(), ElementsAre(0.5, 1.5, 2.5));
  EXPECT_THAT(histogram.bucket(), ElementsAre(0, 2, 1));
  // Nothing came, or a recovery took some back.
  for (const char* line :
       {R"({"seconds": 3, "version": 2, "staleness_histogram": [4, 3, 1]})",
        R"({"seconds": 4, "version": 2, "staleness_histogram": [5, 2, 1]})",
        R"({"seconds": 5, "version": 2, "staleness_histogram": [5]})"}) {
    EXPECT_EQ(Add(line)[0].summary().value_size(), 0) << line;
  }
}

TEST_F(EventRecordsTest, WhereTheVersionFallsTheSessionBeginsAnew) {
  Add(R"({"seconds": 1, "version": 9, "loss": 1})");
  const auto events = Add(R"({"seconds": 2, "version": 6, "loss": 2})");
  ASSERT_EQ(events.size(), 2);
  EXPECT_EQ(events[0].session_log().status(), tensorboard::SessionLog::START);
  EXPECT_EQ(events[0].step(), 6);
  EXPECT_EQ(events[1].step(), 6);
  EXPECT_THAT(ScalarsOf(events[1]), ElementsAre(Pair("loss", 2)));
  EXPECT_EQ(Add(R"({"seconds": 3, "version": 6})").size(), 1);
}

TEST_F(EventRecordsTest, ALineThatIsNoneIsNamed) {
  for (const char* line : {"", "[1]", "{", "{\"seconds\": 1}",
                           "{\"seconds\": 1, \"version\": \"2\"}"}) {
    const auto records = records_.Add(line);
    EXPECT_TRUE(absl::IsInvalidArgument(records.status())) << line;
    EXPECT_THAT(std::string(records.status().message()),
                HasSubstr("expected a JSON object with numbers seconds and "
                          "version, got " +
                          std::string(line)));
  }
}

}  // namespace
}  // namespace sluice
