#ifndef SLUICE_SIM_TESTING_FAULTY_CLUSTER_H_
#define SLUICE_SIM_TESTING_FAULTY_CLUSTER_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "common/random.h"
#include "common/session/client_session.h"
#include "ps_server/coordinator/coordinator_sessions.h"
#include "ps_server/coordinator/testing/invariant_checker.h"
#include "ps_server/shard/shard.h"
#include "sim/event_queue.h"
#include "sim/testing/faults.h"
#include "sim/testing/reference_weights.h"

namespace sluice {

// The production coordinator with its sessions, the production shards, and
// workers that only push numbers, on a network that loses, repeats, reorders
// and delays messages, in virtual time. After every event the rules of
// InvariantChecker hold, every shard's weights are bit for bit those of one
// shard that executed the same commits, and no read is torn; once the faults
// have healed the run must come to its end, and while it stands still it must
// name whom it waits for.
//
// One seed, one run. Not thread-safe.
class FaultyCluster {
 public:
  FaultyCluster(const CoordinatorOptions& options, const Faults& faults,
                uint64_t seed);

  // Faults strike until `heal`; the run must be over by `end`.
  void Run(absl::Duration heal, absl::Duration end);

  // The first rule that was broken, with the seed; empty if none was.
  std::string Violation() const;
  const InvariantChecker& checker() const { return checker_; }
  const FaultCounts& counts() const { return counts_; }
  int64_t reads() const { return reads_; }  // All of them were checked.

 private:
  // One connection of a process's session: the coordinator's writing side.
  class Connection final : public FrameSink {
   public:
    Connection(FaultyCluster* cluster, size_t process)
        : cluster_(cluster), process_(process) {}

    void Queue(proto::FromCoordinator frame) override;
    void End(const absl::Status& status) override;
    void Flush() override;
    bool idle() const override { return queued_.empty(); }
    bool ending() const override { return end_.has_value(); }

    size_t process() const { return process_; }
    bool broken = false;
    // Frames of one direction arrive in order, until one is lost.
    struct Lane {
      VirtualTime arrival = 0;
      bool dead = false;
    } up, down;

   private:
    FaultyCluster* const cluster_;
    const size_t process_;
    std::vector<proto::FromCoordinator> queued_;
    std::optional<absl::Status> end_;
  };

  // What a worker does.
  struct Work {
    proto::Task task;
    std::vector<int64_t> bases;  // By shard; -1: not pulled yet.
    std::vector<bool> staged;    // By shard.
    bool pushing = false;
  };
  struct Process {
    Peer peer;
    int64_t life = 0;  // Events of an earlier one mean nothing.
    bool up = false;
    bool finished = false;  // It has heard of the end of the run.
    VirtualTime paused_until = 0;
    std::unique_ptr<ClientSession> session;
    std::shared_ptr<Connection> connection;
    bool open = false;  // The connection has been welcomed.
    // Workers.
    std::deque<proto::Task> tasks;
    std::optional<Work> work;
    // Shards.
    std::unique_ptr<Shard> shard;
    struct Parked {
      size_t worker;
      int64_t life;
      proto::Task task;
    };
    std::vector<Parked> parked;
  };
  using Body = std::function<void()>;

  static constexpr int64_t kCoordinator = -1;  // Among the processes.
  static constexpr char kFingerprint[] = "faulty";
  static constexpr absl::Duration kRejoinTimeout = absl::Seconds(5);

  absl::Time Now() const {
    return absl::UnixEpoch() + absl::Nanoseconds(queue_.now());
  }
  uint64_t Draw(uint64_t below);
  bool Strikes(int per_thousand);
  VirtualTime DrawTime(absl::Duration least, absl::Duration most);
  void After(VirtualTime delay, Body body) {
    queue_.Add(delay, std::move(body));
  }
  // Runs `body` at the process then, once it is not paused and if it still
  // lives.
  void At(int64_t process, VirtualTime delay, Body body);
  // Sends a message over the link between two processes, if it arrives.
  void Send(int64_t from, int64_t to, const Body& body);
  void SendFrame(const std::shared_ptr<Connection>& connection, bool up,
                 const Body& body);
  bool Loses(int64_t from, int64_t to);
  VirtualTime DrawLatency();
  bool Partitioned(int64_t a, int64_t b) const;

  void StrikeProcesses();
  void Pause(int64_t process);
  void Kill(size_t process);

  // ---- Sessions (faulty_sessions.cc) ----
  void Start(size_t process);
  void Connect(size_t process);
  void FromClient(const std::shared_ptr<Connection>& connection,
                  const proto::ToCoordinator& frame);
  void ToClient(const std::shared_ptr<Connection>& connection,
                const proto::FromCoordinator& frame);
  void Break(const std::shared_ptr<Connection>& connection,
             const absl::Status& status);
  void ConnectionEnded(size_t process, const absl::Status& status);
  void Pump(size_t process);
  void AwakeAndAgain(size_t process);
  void CarryOut();
  void TickAndAgain();

  // ---- Workers and shards (faulty_exchange.cc) ----
  void OnMessage(size_t process, const proto::FromCoordinator& message);
  void Answer(size_t process, proto::ToCoordinator message);
  void BeginNext(size_t worker);
  void Abandon(size_t worker);
  bool Has(size_t worker, const proto::Key& key) const;
  void PullAndAgain(size_t worker, size_t shard, const proto::Key& key);
  void ServePull(size_t shard, size_t worker, int64_t life,
                 const proto::Task& task);
  void Pulled(size_t worker, size_t shard, const proto::Key& key,
              int64_t version);
  void PushAndAgain(size_t worker, size_t shard, const proto::Key& key);
  void ServePush(size_t shard, size_t worker, const proto::Task& task,
                 int chunk);
  void Staged(size_t worker, size_t shard, const proto::Key& key);
  void Execute(size_t shard, const proto::Decision& decision);

  // ---- Checks ----
  void Expect(bool holds, const std::string& rule);
  void CheckShard(const Process& process);
  void CheckProgress();

  std::string Name(int64_t process) const;
  // How everybody stands.
  std::string Describe() const;

  // Constant after construction.
  const CoordinatorOptions options_;
  const Faults faults_;
  const uint64_t seed_;
  const Random random_;
  uint64_t draws_ = 0;
  EventQueue<Body> queue_;
  CoordinatorSessions coordinator_;
  VirtualTime coordinator_paused_until_ = 0;
  InvariantChecker checker_;
  ReferenceWeights reference_;
  std::vector<Process> processes_;  // Shards, then workers.
  std::map<std::pair<int64_t, int64_t>, VirtualTime> partitioned_until_;
  bool healed_ = false;

  FaultCounts counts_;
  int64_t events_ = 0;
  int64_t reads_ = 0;
  VirtualTime last_culprit_ = 0;
  std::string violation_;
};

}  // namespace sluice

#endif  // SLUICE_SIM_TESTING_FAULTY_CLUSTER_H_
