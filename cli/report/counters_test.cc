// A counter that is in a table is in every output that is made from it, and in
// the document that lists them. So whoever adds one adds its row, counts, and
// adds what this test asks for.
#include "ps_server/coordinator/core/counters.h"

#include <cstdint>
#include <fstream>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "cli/report/status_report.h"
#include "common/telemetry/counter_table.h"
#include "common/tls/access_counters.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "ps_server/coordinator/core/job_state.h"
#include "ps_server/coordinator/core/training_snapshot.h"
#include "ps_server/coordinator/report/job_status.h"
#include "ps_server/coordinator/report/metrics_writer.h"
#include "ps_server/coordinator/report/run_summary.h"
#include "ps_server/coordinator/report/snapshot_conversion.h"
#include "ps_server/coordinator/report/status_json.h"
#include "ps_server/shard/exchange_counters.h"
#include "worker/worker_counters.h"

namespace sluice {
namespace {

using ::nlohmann::json;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;

// Gives each counter a number of its own, which is in no other place.
template <typename Counters, size_t n>
Counters Numbered(const CounterRow<Counters> (&table)[n], int64_t first) {
  Counters counters;
  for (const auto& row : table) counters.*row.member = first++;
  return counters;
}

template <typename Counters, size_t n>
CounterMap ByName(const CounterRow<Counters> (&table)[n],
                  const Counters& counters) {
  CounterMap map;
  PutCounters(table, counters, &map);
  return map;
}

JobState StateWithAllCounters() {
  JobState state;
  state.counters = Numbered(kRunCounters, 71001);
  state.checkpoints.emplace().counters = Numbered(kCheckpointCounters, 72001);
  state.workers.resize(1);
  state.workers[0].counters =
      ByName(kWorkerCounters, Numbered(kWorkerCounters, 73001));
  state.shards.resize(1);
  state.shards[0].counters =
      ByName(kExchangeCounters, Numbered(kExchangeCounters, 74001));
  return state;
}

// The number of `name`, "gradients.applied", in an object; null if it has none.
json At(const json& object, const std::string& name) {
  const json::json_pointer place("/" + absl::StrReplaceAll(name, {{".", "/"}}));
  return object.contains(place) ? object.at(place) : json();
}

// Of the coordinator.
CounterMap OfTheRun(const JobState& state) {
  CounterMap counters = ByName(kRunCounters, state.counters);
  PutCounters(kCheckpointCounters, state.checkpoints->counters, &counters);
  return counters;
}

TEST(CountersTest, EveryCounterOfARunIsInMetricsSummaryAndStatus) {
  const JobState state = StateWithAllCounters();
  const json metrics = json::parse(MetricsLine(state, {}, std::nullopt));
  const json summary = json::parse(RunSummary({}, state, {}));
  const proto::JobStatus status = StatusToProto(state, absl::UnixEpoch());
  const json status_json = json::parse(StatusJson(status));
  const std::string text = FormatStatus(status);
  for (const auto& [name, value] : OfTheRun(state)) {
    SCOPED_TRACE(name);
    EXPECT_EQ(At(metrics, name), value);
    EXPECT_EQ(At(summary, name), value);
    EXPECT_EQ(status.counters().at(name), value);
    EXPECT_EQ(At(status_json, name), value);
    EXPECT_EQ(status_json["counters"][name], value);
    EXPECT_THAT(text, ContainsRegex(absl::StrCat("[^0-9]", value, "[^0-9]")));
  }
}

TEST(CountersTest, EveryCounterOfARunComesBackFromACheckpoint) {
  TrainingSnapshot snapshot;
  snapshot.totals.counters = Numbered(kRunCounters, 71001);
  const TrainingSnapshot back = SnapshotFromProto(SnapshotToProto(snapshot));
  EXPECT_EQ(ByName(kRunCounters, back.totals.counters),
            ByName(kRunCounters, snapshot.totals.counters));
}

TEST(CountersTest, EveryCounterOfAWorkerAndAShardIsInTheStatus) {
  const JobState state = StateWithAllCounters();
  const proto::JobStatus status = StatusToProto(state, absl::UnixEpoch());
  const json status_json = json::parse(StatusJson(status));
  const std::string text = FormatProcessCounters(status);
  for (const auto& [name, value] : state.workers[0].counters) {
    SCOPED_TRACE(name);
    EXPECT_EQ(status.worker(0).counters().at(name), value);
    EXPECT_EQ(status_json["worker"][0]["counters"][name], value);
    EXPECT_THAT(text, HasSubstr(absl::StrCat(" ", name, "=", value)));
  }
  for (const auto& [name, value] : state.shards[0].counters) {
    SCOPED_TRACE(name);
    EXPECT_EQ(status.shard(0).counters().at(name), value);
    EXPECT_EQ(status_json["shard"][0]["counters"][name], value);
    EXPECT_THAT(text, HasSubstr(absl::StrCat(" ", name, "=", value)));
  }
}

// The rows of the document's table under the heading, without its head.
std::set<std::string> DocumentedRows(const std::string& heading) {
  std::ifstream file("docs/protocol.md");
  std::set<std::string> rows;
  bool here = false;
  for (std::string line; std::getline(file, line);) {
    if (line[0] == '#') here = line == heading;
    if (here && line.rfind("| `", 0) == 0) rows.insert(line);
  }
  return rows;
}

template <typename Counters, size_t n>
void AddRows(const CounterRow<Counters> (&table)[n],
             std::set<std::string>* rows) {
  for (const auto& row : table) {
    rows->insert(absl::StrCat("| `", row.name, "` | ", row.help, " |"));
  }
}

TEST(CountersTest, TheDocumentListsEveryCounterAndNoOther) {
  std::set<std::string> run, worker, shard, access;
  AddRows(kRunCounters, &run);
  AddRows(kCheckpointCounters, &run);
  AddRows(kWorkerCounters, &worker);
  AddRows(kExchangeCounters, &shard);
  AddRows(kAccessCounters, &access);
  EXPECT_EQ(DocumentedRows("### Counters of a run"), run);
  EXPECT_EQ(DocumentedRows("### Counters of a worker"), worker);
  EXPECT_EQ(DocumentedRows("### Counters of a shard"), shard);
  EXPECT_EQ(DocumentedRows("### Whom a shard has refused"), access);
}

}  // namespace
}  // namespace sluice
