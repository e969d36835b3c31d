#ifndef SLUICE_SIM_TESTING_FAULTY_PROCESS_H_
#define SLUICE_SIM_TESTING_FAULTY_PROCESS_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "common/session/client_session.h"
#include "proto/commit_log.pb.h"
#include "ps_server/coordinator/log/run_files.h"
#include "ps_server/coordinator/session/coordinator_sessions.h"
#include "ps_server/coordinator/session/frame_sink.h"
#include "ps_server/shard/shard.h"
#include "sim/event_queue.h"
#include "sim/testing/lineage_checker.h"
#include "worker/rejoin_policy.h"
#include "worker/task/task_queue.h"

// The processes of a FaultyCluster, as plain values.
namespace sluice {

// One connection of a process's session with a coordinator, on the
// coordinator's side.
class FaultyConnection final : public FrameSink {
 public:
  // `carry` takes the queued frames, and the end of the connection, if any.
  using Carry = std::function<void(std::vector<proto::FromCoordinator> frames,
                                   const std::optional<absl::Status>& end)>;
  // `life`: which life of the process it belongs to.
  FaultyConnection(size_t process, int64_t life, size_t lead)
      : process_(process), life_(life), lead_(lead) {}

  void Queue(proto::FromCoordinator frame) override {
    if (!end_.has_value()) queued_.push_back(std::move(frame));
  }
  void End(const absl::Status& status) override {
    if (end_.has_value()) return;
    end_ = status;
    queued_.clear();
  }
  void Flush() override {
    if (!broken) carry(std::exchange(queued_, {}), end_);
  }
  bool idle() const override { return queued_.empty(); }
  bool ending() const override { return end_.has_value(); }

  size_t process() const { return process_; }
  int64_t life() const { return life_; }
  size_t lead() const { return lead_; }
  Carry carry;
  bool broken = false;
  // Frames of one direction arrive in order, until one is lost.
  struct Lane {
    VirtualTime arrival = 0;
    bool dead = false;
  } up, down;

 private:
  const size_t process_;
  const int64_t life_;
  const size_t lead_;
  std::vector<proto::FromCoordinator> queued_;
  std::optional<absl::Status> end_;
};

// The state of a process during one session, from a Join to the session's end.
// As in ShardDaemon and RunWorker, nothing of it is kept for the next one.
struct FaultyLife {
  // A worker's work on one task.
  struct Work {
    proto::Task task;
    std::vector<int64_t> bases;  // By shard; -1: not pulled yet.
    std::vector<bool> staged;    // By shard.
    // By shard: consecutive calls that were not answered.
    std::vector<int> unanswered;
    bool pushing = false;
  };
  struct Parked {
    size_t worker;
    proto::Task task;
  };
  // A checkpoint that a shard is writing.
  struct Writing {
    Generation generation;
    Shard::HeldVersion held;
    VirtualTime until;
  };

  std::unique_ptr<ClientSession> session;
  std::shared_ptr<FaultyConnection> connection;
  bool open = false;  // The connection has been welcomed.
  // Workers.
  TaskQueue tasks;
  std::optional<Work> work;
  LifeEnd end;
  // Shards.
  std::unique_ptr<Shard> shard;
  std::vector<Parked> parked;
  std::map<ReadId, std::shared_ptr<const WeightStore::Snapshot>> reads;
  std::optional<Writing> writing;
};

// A worker with its successive lives, or a shard with its successive
// generations, until it dies. A shard that is started again is another
// FaultyProcess, a worker is the same one.
struct FaultyProcess {
  Peer peer;
  int64_t starts = 0;
  bool up = false;
  bool finished = false;  // It has been told that the run has ended.
  bool away = false;      // It never comes back.
  VirtualTime paused_until = 0;
  // Number of its life. Events of an earlier life are dropped.
  int64_t lived = 0;
  // A shard between two generations serves no one.
  bool between = false;
  // The current or last life; set once it has started.
  std::optional<FaultyLife> life;
  RejoinPolicy rejoin;  // Only for a worker.
};

// A coordinator during one generation. When its process goes on to the next
// generation, that is another FaultyLead.
struct FaultyLead {
  FaultyLead(const CoordinatorOptions& core, absl::Time now)
      : options(core), sessions(core, now) {}

  // How the generation has ended, and how the run has; unset: it has not.
  const std::optional<GenerationEnd>& end() const { return sessions.end(); }
  const std::optional<FinishRun>& finish() const { return sessions.finish(); }

  const CoordinatorOptions options;
  CoordinatorSessions sessions;
  // The expected history of this generation.
  LineageChecker::Branch* branch = nullptr;
  std::unique_ptr<RunFiles> files;
  bool up = true;
  // The generation is over, and the process writes what is left to write.
  bool closing = false;
  VirtualTime paused_until = 0;
  // Until then it does not notice that the next generation has been taken.
  VirtualTime blind_until = 0;
  // One of its shards was struck, or another coordinator runs, so its
  // generation may fail.
  bool disturbed = false;
  VirtualTime last_culprit = 0;
  std::optional<absl::Time> ended;  // When `end` was set.
  // By process and life: the number of the last message heard.
  std::map<std::pair<size_t, int64_t>, uint64_t> heard;
  // Carried out one after the other. The first is under way.
  std::deque<std::variant<StoreManifest, RemoveStored>> orders;
  int64_t synced = 0;  // Bytes of the log's newest file that are synced.
};

}  // namespace sluice

#endif  // SLUICE_SIM_TESTING_FAULTY_PROCESS_H_
