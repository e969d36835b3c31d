// How many decisions a second does the coordinator make?
//
// A decision is everything that follows from one gradient: Ready comes in, the
// update it belongs to may be committed, and its verdict and its worker's next
// task go out. Expected from arithmetic: the cost is a lookup in tables ordered
// by worker or mini-batch, so it grows at most with the logarithm of the number
// of workers. The rate with P workers is at least the rate with 10 times log 10
// / log P.
//
// Through gRPC the messages cost far more than the decision. Under ASYNC there
// are three for each gradient (Ready, Verdict, Task) and two more for every
// shard (Commit, Executed). Expected is the rate at which the same sessions
// exchange the three with a service that decides nothing, times 3 / (3 + 2 S).

#include "ps_server/coordinator/core/coordinator.h"

#include <algorithm>
#include <cmath>
#include <ctime>
#include <deque>
#include <utility>
#include <variant>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "bench/coordinator_sessions.h"
#include "bench/report.h"
#include "common/process/lock_order.h"
#include "common/rpc/malloc_tuning.h"
#include "common/rpc/polling.h"
#include "common/status_macros.h"
#include "ps_server/coordinator/testing/jobs.h"
#include "third_party/spdlog.h"

namespace sluice::bench {
namespace {

constexpr int kShards = 2;

struct NamedPolicy {
  const char* name;
  proto::Policy kind;
};
constexpr NamedPolicy kPolicies[] = {
    {"SYNC", proto::SYNC},
    {"K_SYNC", proto::K_SYNC},
    {"K_BATCH_SYNC", proto::K_BATCH_SYNC},
    {"ASYNC", proto::ASYNC},
    {"K_ASYNC", proto::K_ASYNC},
    {"K_BATCH_ASYNC", proto::K_BATCH_ASYNC},
};

CoordinatorOptions OptionsOf(proto::Policy policy, int workers) {
  CoordinatorOptions options = PlainJob();
  options.job.mutable_cluster()->set_workers(workers);
  options.job.mutable_cluster()->set_shards(kShards);
  options.job.mutable_sync()->set_policy(policy);
  options.job.mutable_sync()->set_k(workers / 2);
  options.job.mutable_sync()->set_gradients_per_update(workers);
  options.job.mutable_data()->set_batch_size(64);
  options.train_samples =
      1000 * options.job.data().batch_size();  // No mini-batch is short.
  options.job.mutable_limits()->set_staged_gradients(2 * workers);
  return options;
}

// The pure coordinator, with workers that deliver in the order in which they
// got their tasks, and shards that execute at once.
class Cluster {
 public:
  Cluster(proto::Policy policy, int workers)
      : options_(OptionsOf(policy, workers)),
        coordinator_(options_, absl::UnixEpoch()),
        live_(workers) {
    Coordinator::JoinRequest request;
    for (int64_t s = 0; s < kShards; ++s) Join({Role::kShard, s});
    for (int64_t w = 0; w < workers; ++w) Join({Role::kWorker, w});
  }

  // Delivers until `count` gradients have been applied or cancelled.
  void Decide(int64_t count) {
    for (const int64_t end = decisions_ + count; decisions_ < end;) {
      SLUICE_CHECK(!tasks_.empty());
      const Task task = std::move(tasks_.front());
      tasks_.pop_front();
      int64_t& live = live_[task.key.worker.value()];
      if (live != task.key.sequence.value()) continue;  // Cancelled.
      live = 0;
      Delivery delivery;
      delivery.key = task.key;
      delivery.shard_bases.assign(kShards, task.version);
      delivery.samples = options_.job.data().batch_size();
      delivery.loss = 1;
      SLUICE_CHECK(
          coordinator_.Ready(delivery, absl::UnixEpoch(), &actions_).ok());
      CarryOut();
    }
  }

  void Tick() {
    coordinator_.Tick(absl::UnixEpoch(), &actions_);
    CarryOut();
  }

  int64_t verdicts() const { return verdicts_; }
  int64_t version() const {
    return coordinator_.State(absl::UnixEpoch()).version.value();
  }

 private:
  void Join(Peer peer) {
    Coordinator::JoinRequest request;
    request.peer = peer;
    SLUICE_CHECK(coordinator_.Join(request, absl::UnixEpoch(), &actions_).ok());
    CarryOut();
  }

  void CarryOut() {
    while (!actions_.empty()) {
      batch_.clear();
      std::swap(batch_, actions_);
      for (const Action& action : batch_) {
        if (const auto* send = std::get_if<SendTask>(&action)) {
          live_[send->task.key.worker.value()] =
              send->task.key.sequence.value();
          tasks_.push_back(send->task);
        } else if (const auto* cancel = std::get_if<SendCancel>(&action)) {
          live_[cancel->key.worker.value()] = 0;
        } else if (std::holds_alternative<SendVerdict>(action)) {
          ++verdicts_;
          ++decisions_;
        } else if (const auto* send = std::get_if<SendDecision>(&action)) {
          Execute(send->decision);
        }
      }
    }
  }

  void Execute(const Decision& decision) {
    if (const auto* commit = std::get_if<Commit>(&decision.what)) {
      version_ = commit->version;
    }
    for (int64_t s = 0; s < kShards; ++s) {
      SLUICE_CHECK(coordinator_
                       .Executed(ShardId(s), decision.number, version_, "",
                                 absl::UnixEpoch(), &actions_)
                       .ok());
    }
  }

  const CoordinatorOptions options_;
  Coordinator coordinator_;
  std::vector<int64_t> live_;  // Sequence of each worker's task; 0: none.
  std::deque<Task> tasks_;
  Actions actions_, batch_;
  Version version_;
  int64_t verdicts_ = 0;
  int64_t decisions_ = 0;
};

// CPU time of this process, which other processes on the machine do not affect.
double CpuSeconds() {
  return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
}

struct Pure {
  double decisions_per_second;
  double tick_us;
};

// The median of `rounds` rounds of `count` verdicts each.
Pure MeasurePure(proto::Policy policy, int workers, int64_t count, int rounds) {
  Cluster cluster(policy, workers);
  cluster.Decide(2 * workers);
  std::vector<double> rates, ticks;
  for (int i = 0; i < rounds; ++i) {
    double start = CpuSeconds();
    const int64_t before = cluster.verdicts();
    cluster.Decide(count);
    rates.push_back((cluster.verdicts() - before) / (CpuSeconds() - start));
    start = CpuSeconds();
    cluster.Tick();
    ticks.push_back((CpuSeconds() - start) * 1e6);
  }
  // Updates of policies other than SYNC take half of the workers' gradients, or
  // one.
  SLUICE_CHECK(cluster.version() > 0);
  std::sort(rates.begin(), rates.end());
  std::sort(ticks.begin(), ticks.end());
  return {rates[rounds / 2], ticks[rounds / 2]};
}

void AddPure(bool tiny, Report* report) {
  const int64_t count = tiny ? 2'000 : 100'000;
  const int rounds = tiny ? 1 : 5;
  const std::vector<int> sizes =
      tiny ? std::vector<int>{10, 100} : std::vector<int>{10, 100, 1000, 10000};
  for (const NamedPolicy& policy : kPolicies) {
    double smallest = 0;
    for (const int workers : sizes) {
      const Pure pure = MeasurePure(policy.kind, workers, count, rounds);
      if (workers == 10) smallest = pure.decisions_per_second;
      report->Add({absl::StrCat(policy.name, ", ", workers, " workers"),
                   "decisions/s",
                   "10 workers, logarithm",
                   smallest * std::log(10.0) / std::log(workers),
                   pure.decisions_per_second,
                   {{"tick_us", pure.tick_us}}});
    }
  }
}

void AddSessions(bool tiny, Report* report) {
  const std::vector<int> sizes =
      tiny ? std::vector<int>{2} : std::vector<int>{1, 8, 32};
  for (const int workers : sizes) {
    const int64_t count = tiny ? 200 : 20'000;
    const double echoed = EchoedTasksPerSecond(workers, count);
    const double decided = DecidedTasksPerSecond(workers, kShards, count);
    report->Add({absl::StrCat("ASYNC through gRPC, ", workers, " workers"),
                 "decisions/s",
                 "messages of an echo",
                 echoed * 3 / (3 + 2 * kShards),
                 decided,
                 {}});
  }
}

}  // namespace
}  // namespace sluice::bench

int main(int argc, char** argv) {
  sluice::TuneMallocForChunks();  // As in the daemons.
  sluice::LeaveLockOrderUnwatched();
  sluice::PollQueuesApart();
  CLI::App app("Decisions of the coordinator per second");
  bool json = false, tiny = false;
  app.add_flag("--json", json, "Print the results as JSON");
  app.add_flag("--tiny", tiny, "Few decisions, to see that it works");
  CLI11_PARSE(app, argc, argv);
  // Hides warnings about peers that end without a good-bye.
  spdlog::set_level(spdlog::level::err);
  sluice::bench::Report report(
      "coordinator", "How many decisions a second does the coordinator make?");
  sluice::bench::AddPure(tiny, &report);
  sluice::bench::AddSessions(tiny, &report);
  report.Print(json);
}
