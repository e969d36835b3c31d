#ifndef SLUICE_SIM_TESTING_FAULTY_CLUSTER_H_
#define SLUICE_SIM_TESTING_FAULTY_CLUSTER_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "common/job/resolved_job.h"
#include "common/testing/faulty_files.h"
#include "ps_server/coordinator/policy/batch_schedule.h"
#include "ps_server/next_generation.h"
#include "ps_server/resume.h"
#include "sim/event_queue.h"
#include "sim/testing/chance.h"
#include "sim/testing/faults.h"
#include "sim/testing/faulty_process.h"
#include "sim/testing/lineage_checker.h"

namespace sluice {

// The production coordinator, sessions and shards, with workers that only push
// numbers, in virtual time, on a network that loses, repeats, reorders and
// delays messages. Checkpoints, commit logs and resuming are the production
// code on real files. Disks and processes may fail at any event; dead processes
// are started again, but for some workers.
//
// Checked after every event:
//   - the rules of LineageChecker hold;
//   - every shard has the weights of a single shard that executed the same
//     commits;
//   - no read is torn, and what is stored is the version it claims to be;
//   - while the run stands still, it names the process it waits for.
// Once the faults have healed, the run must come to its end.
//
// The same seed gives the same run. Not thread-safe.
class FaultyCluster {
 public:
  // `run_dir` is created, and removed by the destructor.
  FaultyCluster(const CoordinatorOptions& options, const Faults& faults,
                uint64_t seed, std::string run_dir);
  ~FaultyCluster();

  // Faults strike until `heal`; the run must be over by `end`.
  void Run(absl::Duration heal, absl::Duration end);

  // The first rule that was broken, with policy and seed; empty if none was.
  std::string Violation() const;
  const LineageChecker& lineage() const { return lineage_; }
  const FaultCounts& counts() const { return chance_.counts; }
  int64_t reads() const { return reads_; }  // Every one of them was checked.

 private:
  using Process = FaultyProcess;
  using Lead = FaultyLead;
  using Work = FaultyLife::Work;
  using Link = std::shared_ptr<FaultyConnection>;
  using Body = std::function<void()>;
  using BodyAt = std::function<void(size_t process)>;
  using Written = absl::StatusOr<proto::CheckpointFile>;
  using Found = std::optional<Resumption>;

  static constexpr absl::Duration kRejoinTimeout = absl::Seconds(8);
  // Index of a process. Coordinators count down from -1.
  static int64_t IdOf(size_t lead) { return -1 - static_cast<int64_t>(lead); }

  absl::Time Now() const {
    return absl::UnixEpoch() + absl::Nanoseconds(queue_.now());
  }
  void After(VirtualTime delay, Body body) { queue_.Add(delay, body); }
  int shards() const { return options_.job.cluster().shards(); }
  bool IsWorker(int64_t id) const {
    return id >= 0 && processes_[id].peer.role == Role::kWorker;
  }
  int64_t LifeOf(int64_t id) const;
  bool IsUp(int64_t id) const;
  VirtualTime& PausedUntil(int64_t id);
  // Runs `body` at the process after `delay`. A paused process runs it when the
  // pause ends, a process that has died by then does not run it.
  void At(int64_t id, VirtualTime delay, Body body);
  // Sends a message from one process to another; the network may lose it.
  void Send(int64_t from, int64_t to, const Body& body);
  void SendFrame(const Link& connection, bool up, const Body& body);
  bool Loses(int64_t from, int64_t to);
  bool Partitioned(int64_t a, int64_t b) const;

  void StrikeProcesses();
  void Pause(int64_t id);
  void StrikeLink(int64_t id);
  void Kill(size_t process);
  bool StaysAway(size_t worker);
  void Heal();
  bool Over();

  // ---- Servers come and go (faulty_servers.cc) ----
  void StartShard(int64_t shard);
  std::unique_ptr<Shard> NewShard(int64_t shard);
  size_t NewestOf(int64_t shard) const { return newest_[shard]; }
  // A process of the shard, or a coordinator, that a message can reach now.
  std::optional<size_t> Reach(int64_t shard);
  std::optional<size_t> ReachLead();
  bool LeadIsUp() const;
  bool SomeShardIsDoubled() const;
  void StartLead(EarlierLife earlier);
  struct Look;
  void LookForRecovery(const Look& look);
  void TakeGeneration(const Found& found, const RecoveryOptions& recovery);
  void EndLead(size_t lead);
  void CloseLead(size_t lead);
  void KillLead(size_t lead);
  void HangUp(size_t lead);
  void KillShard(size_t process);
  void Double(int64_t id);
  void Disturb();

  // ---- Checkpoints (faulty_storage.cc) ----
  void BeginWriting(size_t process, Shard::HeldVersion held);
  Written StoreHeld(size_t process);
  Written WriteHeld(size_t process, FaultyFiles* disk) const;
  void Record(size_t lead, const Actions& actions);
  void BeginOrder(size_t lead);
  absl::Status DoOrder(size_t lead, FaultyFiles* disk);
  absl::Status WriteManifest(Lead&, const StoreManifest&, FaultyFiles* disk);

  // ---- Lives and sessions (faulty_sessions.cc) ----
  void Start(size_t process);
  void BeginLife(size_t process, bool rejoins);
  void EndLife(size_t process, const absl::Status& session);
  void GoOnInPlace(size_t process);
  void Connect(size_t process);
  void FromClient(const Link& connection, const proto::ToCoordinator& frame);
  void Heard(const Link& connection, const proto::ToCoordinator& frame);
  void ToClient(const Link& connection, const proto::FromCoordinator& frame);
  void Break(const Link& connection, const absl::Status& status);
  void ConnectionEnded(size_t process, const absl::Status& status);
  void Pump(size_t process);
  void AwakeAndAgain(size_t process);
  void CarryOut(size_t lead);
  void TickAndAgain(size_t lead);

  // ---- Workers and shards (faulty_exchange.cc) ----
  void OnMessage(size_t process, const proto::FromCoordinator& message);
  void Answer(size_t process, proto::ToCoordinator message);
  void BeginNext(size_t worker);
  void Done(size_t worker);
  void GiveUp(size_t worker, const proto::Key& key, const absl::Status& why);
  void Leave(size_t worker, const std::string& why);
  bool Asks(size_t worker, int64_t shard, const proto::Key& key);
  void Answered(size_t worker, int64_t shard, const proto::Key& key);
  bool Has(size_t worker, const proto::Key& key) const;
  void PullAndAgain(size_t worker, int64_t shard, const proto::Key& key);
  void SendToShard(size_t worker, int64_t shard, const BodyAt& body);
  void ServePull(size_t process, size_t worker, const proto::Task& task);
  void EndRead(size_t process, size_t worker, const proto::Key& key,
               Generation generation, ReadId id);
  void Pulled(size_t worker, int64_t shard, const proto::Key& key,
              int64_t version);
  void PushAndAgain(size_t worker, int64_t shard, const proto::Key& key);
  void ServePush(size_t process, size_t worker, const proto::Task& task,
                 int chunk);
  void Staged(size_t worker, int64_t shard, const proto::Key& key);
  void Refuse(size_t process, size_t worker, const proto::Key& key,
              const absl::Status& why);
  void Execute(size_t process, const proto::Decision& decision);
  bool MayFail(const FaultyLife& life, const Decision& decision) const;

  // ---- Checks ----
  void Expect(bool holds, const std::string& rule);
  using Chunks = std::vector<ChunkRef>;
  void CheckFloats(Shard& shard, Generation generation, int64_t version,
                   const Chunks& chunks, const std::string& what);
  void CheckShard(size_t process);
  void CheckProgress(Lead& lead);
  void CheckEnd();
  std::string Name(int64_t id) const;
  std::string Describe() const;  // The state of every process.

  // Constant after construction.
  const CoordinatorOptions options_;
  const uint64_t seed_;
  const std::string run_dir_;
  const ResolvedJob job_;
  const ParameterLayout layout_;
  Chance chance_;
  EventQueue<Body> queue_;
  LineageChecker lineage_;
  // Workers, then all processes of shards, dead ones included.
  std::deque<Process> processes_;
  std::vector<size_t> newest_;  // By shard: index of its newest process.
  std::vector<std::unique_ptr<Lead>> leads_;  // By order of their generations.
  std::map<std::pair<int64_t, int64_t>, VirtualTime> partitioned_until_;
  std::set<int64_t> spoiled_;   // Mini-batches that had a bad gradient.
  int looking_ = 0;             // Processes that look for a generation to take.
  bool logs_are_whole_ = true;  // The logs have every task there was.
  std::optional<size_t> ended_;  // The lead with which the run ended.
  int64_t events_ = 0;
  int64_t reads_ = 0;
  std::string violation_;
};

}  // namespace sluice

#endif  // SLUICE_SIM_TESTING_FAULTY_CLUSTER_H_
