#include "cli/launch/death_reports.h"

#include "gtest/gtest.h"

namespace sluice {
namespace {

const absl::Time kStart = absl::UnixEpoch();

PartEnd Killed(Part part, int number, const std::string& process) {
  return {.part = part,
          .number = number,
          .name = NameOfPart(part, number),
          .killed = true,
          .how = "killed by signal 9 (Killed)",
          .process = process};
}

TEST(DeathReportsTest, ADeathIsToldUntilItIsAnswered) {
  DeathReports reports;
  reports.Add(Killed(Part::kShard, 1, "host:17"), kStart);
  for (int i = 0; i < 2; ++i) {
    const auto due = reports.Due(kStart + absl::Seconds(i));
    ASSERT_EQ(due.size(), 1);
    EXPECT_EQ(due[0].role(), proto::SHARD);
    EXPECT_EQ(due[0].id(), 1);
    EXPECT_EQ(due[0].process(), "host:17");
    EXPECT_EQ(due[0].reason(), "killed by signal 9 (Killed)");
  }
  reports.Answered(reports.Due(kStart)[0]);
  EXPECT_TRUE(reports.Due(kStart).empty());
}

TEST(DeathReportsTest, AReasonThatIsNoUtf8ArrivesAllTheSame) {
  DeathReports reports;
  PartEnd end = Killed(Part::kWorker, 0, "host:17");
  end.how = "exit status 1: caf\xe9: is no file";
  reports.Add(end, kStart);
  proto::DeathReport arrived;
  EXPECT_TRUE(
      arrived.ParseFromString(reports.Due(kStart)[0].SerializeAsString()));
  EXPECT_EQ(arrived.reason(), "exit status 1: caf\xef\xbf\xbd: is no file");
}

TEST(DeathReportsTest, AnAnswerIsThatOfItsProcess) {
  DeathReports reports;
  reports.Add(Killed(Part::kWorker, 0, "host:17"), kStart);
  reports.Add(Killed(Part::kWorker, 0, "host:18"), kStart);
  reports.Answered(reports.Due(kStart)[0]);
  ASSERT_EQ(reports.Due(kStart).size(), 1);
  EXPECT_EQ(reports.Due(kStart)[0].process(), "host:18");
}

TEST(DeathReportsTest, AnOldDeathIsNewsToNobody) {
  DeathReports reports;
  reports.Add(Killed(Part::kWorker, 0, "host:17"), kStart);
  EXPECT_TRUE(reports.Due(kStart + DeathReports::kTryFor).empty());
}

TEST(DeathReportsTest, AMembersDeathIsToldUnderItsGroupsNumber) {
  DeathReports reports;
  reports.Add(Killed(Part::kMember, NumberOfMember(3, 1), "host:17"), kStart);
  const auto due = reports.Due(kStart);
  ASSERT_EQ(due.size(), 1);
  EXPECT_EQ(due[0].role(), proto::WORKER);
  EXPECT_EQ(due[0].id(), 3);
  EXPECT_EQ(due[0].process(), "host:17");
}

TEST(DeathReportsTest, WhoEndedWellAndTheLeadAreNotReported) {
  DeathReports reports;
  PartEnd well = Killed(Part::kWorker, 0, "host:17");
  well.ok = true;
  reports.Add(well, kStart);
  reports.Add(Killed(Part::kLead, 0, "host:18"), kStart);
  EXPECT_TRUE(reports.Due(kStart).empty());
}

}  // namespace
}  // namespace sluice
