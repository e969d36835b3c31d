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
#include "ps_server/coordinator/coordinator_sessions.h"
#include "ps_server/coordinator/frame_sink.h"
#include "ps_server/coordinator/run_files.h"
#include "ps_server/shard/shard.h"
#include "sim/event_queue.h"
#include "sim/testing/lineage_checker.h"
#include "worker/lives.h"
#include "worker/task_queue.h"

// The processes of a FaultyCluster, as plain values.
namespace sluice {

// One connection of a process's session with a coordinator: the latter's
// writing side.
class FaultyConnection final : public FrameSink {
 public:
  // `carry` takes what has been queued, and the end, if there is one.
  using Carry = std::function<void(std::vector<proto::FromCoordinator> frames,
                                   const std::optional<absl::Status>& end)>;
  // `life`: of the process, which one.
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

// What a process has for as long as one session: from a Join to that session's
// end. Nothing of one is in the next, as in ShardDaemon and RunWorker.
struct FaultyLife {
  // What a worker does.
  struct Work {
    proto::Task task;
    std::vector<int64_t> bases;  // By shard; -1: not pulled yet.
    std::vector<bool> staged;    // By shard.
    // By shard, calls in a row that it has not answered.
    std::vector<int> unanswered;
    bool pushing = false;
  };
  struct Parked {
    size_t worker;
    proto::Task task;
  };
  // What a shard writes of a checkpoint.
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

// A worker, one life after the other, or a shard, one generation after the
// other, until it dies. A shard that is started again is another process, a
// worker the same one.
struct FaultyProcess {
  Peer peer;
  int64_t starts = 0;
  bool up = false;
  bool finished = false;  // It has heard of the end of the run.
  VirtualTime paused_until = 0;
  int64_t lived = 0;  // Lives: events of an earlier one mean nothing.
  // A shard is between two lives: nobody is served.
  bool between = false;
  std::optional<FaultyLife> life;  // From the start on, the last one.
  Lives lives;                     // Of a worker.
};

// A coordinator in one generation. Its process goes on to the next as another
// of these.
struct FaultyLead {
  FaultyLead(const CoordinatorOptions& core, const std::string& fingerprint,
             absl::Time now)
      : options(core), sessions({core, fingerprint, ""}, now) {}

  // How the generation ended, if it has; and the run, if that.
  const std::optional<GenerationEnd>& end() const { return sessions.end(); }
  const std::optional<FinishRun>& finish() const { return sessions.finish(); }

  const CoordinatorOptions options;
  CoordinatorSessions sessions;
  LineageChecker::Branch* branch = nullptr;  // What it must be.
  std::unique_ptr<RunFiles> files;
  bool up = true;
  // The generation is over; the process is at what is left to be written.
  bool closing = false;
  VirtualTime paused_until = 0;
  // Until then it does not see that the next generation has been taken.
  VirtualTime blind_until = 0;
  // A shard of its has been struck, or another coordinator: it may fail.
  bool disturbed = false;
  VirtualTime last_culprit = 0;
  std::optional<absl::Time> ended;  // When `end` came.
  // The last message of each life of a process, by its number.
  std::map<std::pair<size_t, int64_t>, uint64_t> heard;
  // To be done one after the other; the first is being done.
  std::deque<std::variant<StoreManifest, RemoveStored>> orders;
  // The last commit in the log, and those of versions that are being stored,
  // with the log's length with them.
  std::pair<proto::LogRecord, int64_t> last_commit;
  std::map<Version, std::pair<proto::LogRecord, int64_t>> commits;
  int64_t synced = 0;  // Of the log's newest file, in bytes.
};

}  // namespace sluice

#endif  // SLUICE_SIM_TESTING_FAULTY_PROCESS_H_
