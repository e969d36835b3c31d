// What does an update cost the lead of a large cluster?
//
// The lead's sessions, coordinator and log records are the production code,
// driven without a network or a clock by peers that answer at once; frames are
// counted as they are serialised. Expected from arithmetic, for an update of K
// gradients, T tasks and S shards:
//
//   messages  2 T + K + (T - K) + 2 S D   Task, Verdict; Ready; Cancel; a
//                                         Decision and its Executed
//   with D = 1, or 2 where tasks are discarded.
#include <malloc.h>

#include <algorithm>
#include <cstdint>
#include <ctime>
#include <deque>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "bench/report.h"
#include "common/job/resolved_job.h"
#include "common/status_macros.h"
#include "proto/coordinator.pb.h"
#include "ps_server/coordinator/session/coordinator_sessions.h"
#include "ps_server/decisions/event_conversion.h"

namespace sluice::bench {
namespace {

struct Traffic {
  int64_t messages = 0;
  int64_t bytes = 0;
  int64_t log_bytes = 0;
};

// SYNC where shards have room for so few gradients, which they fold.
constexpr char kFolding[] = "SYNC, folding";
constexpr int kFoldingRoom = 16;

bool IsSync(const std::string& policy) {
  return policy == "SYNC" || policy == kFolding;
}

int GradientsOf(const std::string& policy, int workers) {
  return IsSync(policy) ? workers : std::max(workers / 2, 1);
}

ResolvedJob JobOf(const std::string& policy, int shards, int workers) {
  const std::string k =
      IsSync(policy) ? "" : absl::StrCat(" k: ", GradientsOf(policy, workers));
  const std::string limits =
      policy == kFolding
          ? absl::StrCat("limits { staged_gradients: ",
                         std::min(kFoldingRoom, workers - 1), " }")
          : "";
  auto job = ParseJob(
      absl::StrCat(
          "cluster { workers: ", workers, " shards: ", shards, " }",
          "sync { policy: ", IsSync(policy) ? "SYNC" : policy, k, " }", limits,
          R"pb(
            data {
              linear_regression { features: 16000 train_samples: 200000 }
              batch_size: 8
            }
            model { layer { dense { units: 1 } } }
            optimizer { learning_rate: 0.1 }
            evaluation { enabled: false }
            stop { epochs: 1000000 }
          )pb"),
      "scale", {});
  SLUICE_CHECK(job.ok());
  return *std::move(job);
}

// A peer's connection: what it is sent waits to be answered.
class Connection final : public FrameSink {
 public:
  explicit Connection(Traffic* traffic) : traffic_(*traffic) {}

  void Queue(proto::FromCoordinator frame) override {
    ++traffic_.messages;
    traffic_.bytes += static_cast<int64_t>(frame.SerializeAsString().size());
    frames.push_back(std::move(frame));
  }
  void End(const absl::Status& status) override { SLUICE_CHECK(status.ok()); }
  void Flush() override {}
  bool idle() const override { return true; }
  bool ending() const override { return false; }

  std::deque<proto::FromCoordinator> frames;

 private:
  Traffic& traffic_;
};

// The lead with all its peers.
class Cluster {
 public:
  explicit Cluster(const ResolvedJob& job) : job_(job.job) {
    CoordinatorOptions options;
    options.job = job_;
    options.train_samples = job.data.train_samples;
    options.grant_secret = std::string(32, 's');
    sessions_ = std::make_unique<CoordinatorSessions>(std::move(options), now_);
    for (int64_t s = 0; s < job_.cluster().shards(); ++s) Join(proto::SHARD, s);
    for (int64_t w = 0; w < job_.cluster().workers(); ++w) {
      Join(proto::WORKER, w);
    }
  }

  int64_t version() const { return sessions_->State(now_).version.value(); }
  int64_t tasks() const { return tasks_; }
  Traffic& traffic() { return traffic_; }

  void RunUntil(int64_t version) {
    while (newest_ < version) {
      for (auto& peer : peers_) Answer(peer.get());
    }
  }

 private:
  struct Member {
    Member(proto::Role role, int64_t id, Traffic* traffic)
        : role(role),
          id(id),
          connection(std::make_shared<Connection>(traffic)) {}
    const proto::Role role;
    const int64_t id;
    const std::shared_ptr<Connection> connection;
    uint64_t sent = 0, received = 0;
    int64_t version = 0;  // Of a shard.
  };

  void Join(proto::Role role, int64_t id) {
    peers_.push_back(std::make_unique<Member>(role, id, &traffic_));
    proto::ToCoordinator frame;
    proto::Join* join = frame.mutable_join();
    join->set_role(role);
    join->set_id(id);
    join->set_address("host-of-a-shard:7000");
    join->set_process(absl::StrCat("host-", id, ":4711"));
    join->set_session_secret(std::string(16, 'x'));
    Send(peers_.back().get(), std::move(frame));
  }

  void Send(Member* peer, proto::ToCoordinator frame) {
    if (!frame.has_join()) frame.set_sequence(++peer->sent);
    frame.set_ack(peer->received);
    ++traffic_.messages;
    traffic_.bytes += static_cast<int64_t>(frame.SerializeAsString().size());
    SLUICE_CHECK(sessions_->OnFrame(peer->connection, frame, now_).ok());
    while (sessions_->has_actions()) {
      const Actions actions = sessions_->TakeActions();
      for (const proto::LogRecord& record : RecordsOf(actions, 1)) {
        traffic_.log_bytes +=
            static_cast<int64_t>(record.SerializeAsString().size()) + 12;
      }
      for (const Action& action : actions) sessions_->Send(action, now_);
    }
    sessions_->TakeTouched();
  }

  // Each peer has its turn with what it has been sent so far.
  void Answer(Member* peer) {
    const auto frames = std::exchange(peer->connection->frames, {});
    std::set<std::string> cancelled;
    for (const proto::FromCoordinator& frame : frames) {
      if (frame.has_cancel()) {
        cancelled.insert(frame.cancel().key().SerializeAsString());
      }
      peer->received = std::max(peer->received, frame.sequence());
    }
    for (const proto::FromCoordinator& frame : frames) {
      if (frame.has_task()) {
        ++tasks_;
        const proto::Task& task = frame.task();
        if (cancelled.contains(task.key().SerializeAsString())) continue;
        proto::ToCoordinator answer;
        proto::Ready* ready = answer.mutable_ready();
        *ready->mutable_key() = task.key();
        for (int s = 0; s < job_.cluster().shards(); ++s) {
          ready->add_shard_base(task.version());
        }
        ready->set_samples(job_.data().batch_size() * task.batches());
        ready->set_loss(0.123456789);
        ready->set_pull_seconds(0.0123);
        ready->set_compute_seconds(0.123);
        ready->set_push_seconds(0.0123);
        Send(peer, std::move(answer));
      } else if (frame.has_decision()) {
        const proto::Decision& decision = frame.decision();
        if (decision.has_commit()) peer->version = decision.commit().version();
        newest_ = std::max(newest_, peer->version);
        proto::ToCoordinator answer;
        answer.mutable_executed()->set_decision(decision.number());
        answer.mutable_executed()->set_version(peer->version);
        Send(peer, std::move(answer));
      }
    }
  }

  const proto::Job& job_;
  const absl::Time now_ = absl::UnixEpoch();
  Traffic traffic_;
  std::unique_ptr<CoordinatorSessions> sessions_;
  std::vector<std::unique_ptr<Member>> peers_;
  int64_t newest_ = 0;
  int64_t tasks_ = 0;
};

double HeapBytes() { return static_cast<double>(mallinfo2().uordblks); }

Row Measure(const std::string& policy, int shards, int workers,
            int64_t updates) {
  const ResolvedJob job = JobOf(policy, shards, workers);
  const double heap_before = HeapBytes();
  Cluster cluster(job);
  cluster.RunUntil(1);
  const Traffic before = cluster.traffic();
  const int64_t tasks_before = cluster.tasks();
  const int64_t first = cluster.version();
  const std::clock_t start = std::clock();
  cluster.RunUntil(first + updates);
  const double cpu = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  const auto made = static_cast<double>(cluster.version() - first);
  const double heap = HeapBytes() - heap_before;
  const Traffic& after = cluster.traffic();
  const double k = GradientsOf(policy, workers);
  const double tasks =
      static_cast<double>(cluster.tasks() - tasks_before) / made;
  // A Commit, a Discard where tasks were cancelled; where gradients are folded
  // half of the room at once, the last of them by the Commit.
  const int at_once = std::max(1, job.job.limits().staged_gradients() / 2);
  const double folds =
      policy == kFolding ? (workers - 1) / at_once : 0;  // Whole ones.
  const double decisions = (tasks > k * 1.01 ? 2 : 1) + folds;
  const auto per_update = [&](int64_t now, int64_t then) {
    return static_cast<double>(now - then) / made;
  };
  return {.what = absl::StrCat(policy, ", ", shards, " shards, ", workers,
                               " workers"),
          .unit = "messages an update",
          .expected_from = "formula",
          .expected = 2 * tasks + k + (tasks - k) + 2 * shards * decisions,
          .measured = per_update(after.messages, before.messages),
          .more = {
              {"kib", per_update(after.bytes, before.bytes) / 1024},
              {"log_kib", per_update(after.log_bytes, before.log_bytes) / 1024},
              {"ms", cpu * 1000 / made},
              {"heap_mib", heap / (1 << 20)}}};
}

}  // namespace
}  // namespace sluice::bench

int main(int argc, char** argv) {
  CLI::App app("Large clusters, their lead driven without a network");
  bool json = false, tiny = false;
  app.add_flag("--json", json, "Print the results as JSON");
  app.add_flag("--tiny", tiny, "A small cluster, to see that it works");
  CLI11_PARSE(app, argc, argv);

  sluice::bench::Report report(
      "scale", "What does an update cost the lead of a large cluster?");
  const std::vector<std::pair<int, int>> sizes =
      tiny ? std::vector<std::pair<int, int>>{{2, 3}}
           : std::vector<std::pair<int, int>>{
                 {1, 8}, {8, 64}, {32, 256}, {100, 1000}, {1000, 10000}};
  for (const auto& [shards, workers] : sizes) {
    for (const char* policy :
         {"SYNC", "SYNC, folding", "K_SYNC", "K_BATCH_ASYNC"}) {
      report.Add(sluice::bench::Measure(policy, shards, workers,
                                        tiny             ? 2
                                        : workers > 2000 ? 3
                                                         : 20));
    }
  }
  report.Note(
      "K half of the workers; the bytes and CPU time of an update, without "
      "gRPC; heap: all that the lead holds");
  report.Print(json);
}
