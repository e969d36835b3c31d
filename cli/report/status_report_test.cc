#include "cli/report/status_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "ps_server/coordinator/report/status_json.h"

namespace sluice {
namespace {

using testing::HasSubstr;
using testing::Not;

proto::JobStatus TwoWorkersOneDead() {
  proto::JobStatus status;
  status.set_name("job");
  status.set_policy("K_SYNC, K=2");
  status.set_phase("running");
  status.set_version(7);
  for (int bin : {0, 5, 0, 2}) status.add_staleness_histogram(bin);
  status.set_waiting_for("worker 1");
  status.set_waiting_s(61);
  for (int id : {0, 1}) {
    proto::WorkerStatus* worker = status.add_worker();
    worker->set_id(id);
    worker->set_state(id == 0 ? "waiting" : "dead");
    worker->set_last_heard_s(0.25 + 12 * id);
    worker->mutable_gradients()->set_applied(30 + id);
  }
  proto::ShardStatus* shard = status.add_shard();
  shard->set_state("missing");
  return status;
}

TEST(StatusReportTest, NamesTheDeadAndWhoIsWaitedForSinceWhen) {
  const std::string text = FormatStatus(TwoWorkersOneDead());
  EXPECT_THAT(text, HasSubstr("K_SYNC, K=2"));
  EXPECT_THAT(text, HasSubstr("waiting for worker 1 since 1 min 01 s"));
  EXPECT_THAT(text, testing::ContainsRegex("worker 1 +dead +12.2 s"));
}

TEST(StatusReportTest, SaysWhyWorkersWereLost) {
  proto::JobStatus status;
  proto::WorkerStatus* worker = status.add_worker();
  worker->set_id(4);
  worker->set_state("computing");
  EXPECT_THAT(FormatStatus(status), Not(HasSubstr("was lost")));
  worker->set_last_loss("left: a mistake");
  EXPECT_THAT(FormatStatus(status),
              HasSubstr("worker 4 was lost: left: a mistake\n"));
}

TEST(StatusReportTest, ShowsOnlyStalenessThatOccurred) {
  const std::string text = FormatStatus(TwoWorkersOneDead());
  EXPECT_THAT(text, HasSubstr("staleness  1: 5  3+: 2\n"));
}

TEST(StatusReportTest, WhoWasNeverThereWasNeverHeard) {
  EXPECT_THAT(FormatStatus(TwoWorkersOneDead()),
              testing::ContainsRegex("shard 0 +missing +- "));
}

TEST(StatusReportTest, SaysHowItsProcessesTalk) {
  proto::JobStatus status = TwoWorkersOneDead();
  EXPECT_THAT(FormatStatus(status), testing::Not(HasSubstr("insecure")));
  EXPECT_THAT(FormatStatus(status), testing::Not(HasSubstr("certificates")));
  status.set_insecure(true);
  EXPECT_THAT(FormatStatus(status), HasSubstr("insecure     plain text"));
  status.set_certificate_expires_s(61);
  status.set_certificate_of("worker 1");
  EXPECT_THAT(FormatStatus(status),
              HasSubstr("the first expires in 1 min 01 s: worker 1's\n"));
  const auto json = nlohmann::json::parse(StatusJson(status));
  EXPECT_EQ(json["insecure"], true);
  EXPECT_EQ(json["certificate_expires_s"], 61);
}

TEST(StatusReportTest, SaysWhatBecameOfCheckpointsWhereThereAreSome) {
  proto::JobStatus status = TwoWorkersOneDead();
  EXPECT_THAT(FormatStatus(status), testing::Not(HasSubstr("checkpoints")));
  EXPECT_TRUE(
      nlohmann::json::parse(StatusJson(status))["checkpoints"].is_null());
  status.mutable_checkpoint();
  EXPECT_THAT(FormatStatus(status),
              HasSubstr("checkpoints  none yet, 0 written, 0 failed, 0 late"));
  status.mutable_checkpoint()->set_newest_version(40);
  (*status.mutable_counters())["checkpoints.written"] = 4;
  status.mutable_checkpoint()->set_writing_version(50);
  status.mutable_checkpoint()->set_writing_s(3);
  status.mutable_checkpoint()->set_last_error("version 30: shard 1: no room");
  const std::string text = FormatStatus(status);
  EXPECT_THAT(text, HasSubstr("version 40 is the newest, 4 written"));
  EXPECT_THAT(text, HasSubstr("writing version 50 for 3 s"));
  EXPECT_THAT(text, HasSubstr("version 30: shard 1: no room"));
  const auto json = nlohmann::json::parse(StatusJson(status))["checkpoints"];
  EXPECT_EQ(json["newest_version"], 40);
  EXPECT_EQ(json["writing_version"], 50);
}

TEST(StatusReportTest, SaysWhatRecoveriesHaveCost) {
  proto::JobStatus status = TwoWorkersOneDead();
  EXPECT_THAT(FormatStatus(status), testing::Not(HasSubstr("recovered")));
  EXPECT_TRUE(nlohmann::json::parse(StatusJson(status))["recovery"].is_null());
  status.set_generation(3);
  status.mutable_recovery()->set_restored_version(40);
  status.mutable_recovery()->set_updates_lost(17);
  status.mutable_recovery()->set_reason("shard 1 restarted");
  status.mutable_checkpoint();
  EXPECT_THAT(FormatStatus(status),
              HasSubstr("recovered    generation 3 goes on from version 40; 17 "
                        "updates lost so far\n"
                        "because      shard 1 restarted\n"));
  EXPECT_THAT(FormatStatus(status),
              HasSubstr("checkpoints  none yet in this generation, 0 written"));
  const auto json = nlohmann::json::parse(StatusJson(status))["recovery"];
  EXPECT_EQ(json["restored_version"], 40);
  EXPECT_EQ(json["updates_lost"], 17);
  EXPECT_EQ(json["reason"], "shard 1 restarted");
}

TEST(StatusReportTest, ShowsWhatUsersProgramsLog) {
  proto::JobStatus status = TwoWorkersOneDead();
  (*status.mutable_logged())["norm"] = 0.25;
  EXPECT_THAT(FormatStatus(status), HasSubstr("norm         0.25\n"));
  EXPECT_EQ(nlohmann::json::parse(StatusJson(status))["logged"]["norm"], 0.25);
}

TEST(StatusReportTest, JsonHoldsNumbersAndNullForWhatIsNotKnown) {
  proto::JobStatus status = TwoWorkersOneDead();
  auto json = nlohmann::json::parse(StatusJson(status));
  EXPECT_EQ(json["version"], 7);
  EXPECT_EQ(json["worker"][1]["gradients"]["applied"], 31);
  EXPECT_TRUE(json["test_accuracy"].is_null());
  status.set_test_accuracy(0.5);
  json = nlohmann::json::parse(StatusJson(status));
  EXPECT_EQ(json["test_accuracy"], 0.5);
}

}  // namespace
}  // namespace sluice
