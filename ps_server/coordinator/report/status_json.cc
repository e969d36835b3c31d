#include "ps_server/coordinator/report/status_json.h"

#include <map>

#include "common/telemetry/counter_json.h"
#include "common/telemetry/counter_table.h"
#include "common/telemetry/json_text.h"
#include "ps_server/coordinator/core/counters.h"

namespace sluice {
namespace {

using Json = nlohmann::ordered_json;

// Protobuf's maps have no order.
template <typename Value>
std::map<std::string, Value> Sorted(
    const google::protobuf::Map<std::string, Value>& message) {
  return {message.begin(), message.end()};
}

Json VerdictsJson(const proto::GradientCounts& counts) {
  return {{"applied", counts.applied()},
          {"cancelled", counts.cancelled()},
          {"dropped", counts.dropped()},
          {"rejected", counts.rejected()},
          {"lost", counts.lost()}};
}

Json WorkersJson(const proto::JobStatus& status) {
  Json workers = Json::array();
  for (const proto::WorkerStatus& worker : status.worker()) {
    Json json = {{"id", worker.id()},
                 {"state", worker.state()},
                 {"incarnation", worker.incarnation()},
                 {"last_heard_s", worker.last_heard_s()},
                 {"gradients", VerdictsJson(worker.gradients())},
                 {"process", worker.process()},
                 {"counters", Sorted(worker.counters())}};
    if (!worker.members().empty()) {
      json["members"] = std::vector<std::string>(worker.members().begin(),
                                                 worker.members().end());
    }
    if (!worker.place().empty()) json["place"] = worker.place();
    if (!worker.last_loss().empty()) json["last_loss"] = worker.last_loss();
    workers.push_back(std::move(json));
  }
  return workers;
}

Json ShardsJson(const proto::JobStatus& status) {
  Json shards = Json::array();
  for (const proto::ShardStatus& shard : status.shard()) {
    shards.push_back({{"id", shard.id()},
                      {"state", shard.state()},
                      {"version", shard.version()},
                      {"last_heard_s", shard.last_heard_s()},
                      {"address", shard.address()},
                      {"process", shard.process()},
                      {"counters", Sorted(shard.counters())}});
  }
  return shards;
}

Json TaskTimesJson(const proto::JobStatus& status) {
  Json times = Json::object();
  for (const proto::TaskTime& time : status.task_time()) {
    times[time.phase()] = {{"seconds", time.seconds()},
                           {"histogram", time.histogram()}};
  }
  return times;
}

Json RecoveryJson(const proto::JobStatus& status) {
  if (!status.has_recovery()) return nullptr;
  return {{"restored_version", status.recovery().restored_version()},
          {"updates_lost", status.recovery().updates_lost()},
          {"reason", status.recovery().reason()}};
}

Json CheckpointsJson(const proto::JobStatus& status) {
  if (!status.has_checkpoint()) return nullptr;
  const proto::CheckpointStatus& checkpoint = status.checkpoint();
  Json json = {{"newest_version", nullptr},
               {"last_error", checkpoint.last_error()},
               {"writing_version", nullptr},
               {"writing_s", checkpoint.writing_s()}};
  if (checkpoint.has_newest_version()) {
    json["newest_version"] = checkpoint.newest_version();
  }
  if (checkpoint.has_writing_version()) {
    json["writing_version"] = checkpoint.writing_version();
  }
  return json;
}

}  // namespace

nlohmann::ordered_json StatusAsJson(const proto::JobStatus& status) {
  const RunCounters counters = CountersFrom(kRunCounters, status.counters());
  Json json = {
      {"name", status.name()},
      {"run_id", status.run_id()},
      {"policy", status.policy()},
      {"phase", status.phase()},
      {"message", status.message()},
      {"generation", status.generation()},
      {"version", status.version()},
      {"epoch", status.epoch()},
      {"epochs_total", status.epochs_total()},
      {"progress", status.progress()},
      {"samples_applied", counters.samples_applied},
      {"seconds", status.seconds()},
      {"updates_per_second", status.updates_per_second()},
      {"samples_per_second", status.samples_per_second()},
      {"loss", status.loss()},
      {"learning_rate", status.learning_rate()},
      {"test_loss", nullptr},
      {"test_accuracy", nullptr},
      {"test_version", status.test_version()},
      {"mean_staleness", status.mean_staleness()},
      {"staleness_histogram", status.staleness_histogram()},
      {"task_time", TaskTimesJson(status)},
      {"checkpoints", CheckpointsJson(status)},
      {"recovery", RecoveryJson(status)},
      {"worker", WorkersJson(status)},
      {"shard", ShardsJson(status)},
      {"waiting_for", status.waiting_for()},
      {"waiting_s", status.waiting_s()},
      {"counters", Sorted(status.counters())},
      {"logged", Sorted(status.logged())},
      {"insecure", status.insecure()},
      {"certificate_expires_s", nullptr},
      {"certificate_of", status.certificate_of()},
  };
  if (status.has_certificate_expires_s()) {
    json["certificate_expires_s"] = status.certificate_expires_s();
  }
  PutCountersInJson(kRunCounters, counters, &json);
  if (status.has_checkpoint()) {
    PutCountersInJson(kCheckpointCounters,
                      CountersFrom(kCheckpointCounters, status.counters()),
                      &json);
  }
  if (status.has_test_loss()) json["test_loss"] = status.test_loss();
  if (status.has_test_accuracy()) {
    json["test_accuracy"] = status.test_accuracy();
  }
  return json;
}

std::string StatusJson(const proto::JobStatus& status) {
  return JsonText(StatusAsJson(status), 2) + "\n";
}

}  // namespace sluice
