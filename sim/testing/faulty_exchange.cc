// Pulls, pushes and decisions in a FaultyCluster.
//
// A worker repeats a call every 150 ms until it is answered, as on an
// unreliable network: pull from every shard, wait for the compute time, push to
// every shard, report Ready. Each step checks with Has() that the task is still
// the worker's task, so answers to an earlier task have no effect. After
// kRejoinTimeout without an answer from a shard, the worker gives up and joins
// again.
//
// Every gradient is one number that stands for its mini-batch, so the expected
// weights of each version are known (ReferenceWeights). They are compared
// whenever a shard has executed a decision or hands out a version.
#include <algorithm>
#include <variant>

#include "absl/strings/str_cat.h"
#include "common/key_proto.h"
#include "common/wire/payload.h"
#include "ps_server/coordinator/policy/batch_schedule.h"
#include "ps_server/decisions/event_conversion.h"
#include "sim/testing/faulty_cluster.h"

namespace sluice {
namespace {

// A worker repeats a call after this time without an answer.
constexpr absl::Duration kAskAgain = absl::Milliseconds(150);
// As in CoordinatorClient.
constexpr absl::Duration kLeaveTimeout = absl::Seconds(1);

}  // namespace

void FaultyCluster::OnMessage(size_t index,
                              const proto::FromCoordinator& message) {
  FaultyLife& life = *processes_[index].life;
  if (message.has_decision()) return Execute(index, message.decision());
  if (!life.end.worked.ok() || life.end.told_to_leave) return;
  if (message.has_task()) {
    life.tasks.Add(message.task());
    if (!life.work.has_value()) BeginNext(index);
  } else if (message.has_cancel() &&
             life.tasks.Cancel(KeyFromProto(message.cancel().key()))) {
    Done(index);
  }
}

void FaultyCluster::Answer(size_t process, proto::ToCoordinator message) {
  Expect(processes_[process].life->session->Send(std::move(message)).ok(),
         "a session has room for what its process says");
  Pump(process);
}

// ---- The worker. ----

bool FaultyCluster::Has(size_t worker, const proto::Key& key) const {
  const auto& work = processes_[worker].life->work;
  return work.has_value() &&
         KeyFromProto(work->task.key()) == KeyFromProto(key);
}

void FaultyCluster::Done(size_t worker) {
  processes_[worker].life->work.reset();
  processes_[worker].life->tasks.Done();
  BeginNext(worker);
}

void FaultyCluster::BeginNext(size_t worker) {
  FaultyLife& life = *processes_[worker].life;
  const std::optional<proto::Task> task = life.tasks.Take();
  if (!task.has_value()) return;
  Expect(task->key().generation() == life.session->welcome().generation(),
         absl::StrCat(Name(worker), " works for its own generation only"));
  life.work =
      Work{*task, std::vector<int64_t>(shards(), -1),
           std::vector<bool>(shards(), false), std::vector<int>(shards(), 0)};
  for (int s = 0; s < shards(); ++s) {
    PullAndAgain(worker, s, task->key());
  }
}

// Loses a shard: like RunWorker, the worker leaves and joins again.
void FaultyCluster::GiveUp(size_t worker, const proto::Key& key,
                           const absl::Status& why) {
  if (!Has(worker, key)) return;
  ++chance_.counts.given_up;
  processes_[worker].life->end.worked = why;
  Leave(worker, std::string(why.message()));
}

void FaultyCluster::Leave(size_t worker, const std::string& why) {
  FaultyLife& life = *processes_[worker].life;
  life.work.reset();
  life.session->Leave(why);
  Pump(worker);
  At(worker, absl::ToInt64Nanoseconds(kLeaveTimeout), [this, worker] {
    const Link connection = processes_[worker].life->connection;
    if (connection != nullptr) Break(connection, absl::CancelledError("left"));
    EndLife(worker, absl::OkStatus());
  });
}

// Counts a call to a shard. False if too many calls were not answered.
bool FaultyCluster::Asks(size_t worker, int64_t shard, const proto::Key& key) {
  int& unanswered = processes_[worker].life->work->unanswered[shard];
  if (++unanswered * kAskAgain <= kRejoinTimeout) return true;
  GiveUp(worker, key, absl::UnavailableError("a shard does not answer"));
  return false;
}

void FaultyCluster::Answered(size_t worker, int64_t shard,
                             const proto::Key& key) {
  if (Has(worker, key)) processes_[worker].life->work->unanswered[shard] = 0;
}

void FaultyCluster::PullAndAgain(size_t worker, int64_t shard,
                                 const proto::Key& key) {
  if (!Has(worker, key)) return;
  const Work& work = *processes_[worker].life->work;
  if (work.bases[shard] >= 0 || !Asks(worker, shard, key)) return;
  SendToShard(worker, shard, [=, this, task = work.task](size_t at) {
    ServePull(at, worker, task);
  });
  At(worker, absl::ToInt64Nanoseconds(kAskAgain),
     [=, this] { PullAndAgain(worker, shard, key); });
}

// Sends to the process that has that shard's address when the message arrives.
void FaultyCluster::SendToShard(size_t worker, int64_t shard,
                                const BodyAt& body) {
  if (chance_.Strikes(chance_.faults.straggle)) {
    ++chance_.counts.straggled;
    After(chance_.DrawTime(absl::Seconds(1), absl::Seconds(10)), [=, this] {
      const std::optional<size_t> to = Reach(shard);
      if (to.has_value()) At(*to, 0, [body, to] { body(*to); });
    });
    return;
  }
  const std::optional<size_t> to = Reach(shard);
  if (to.has_value()) Send(worker, *to, [body, to] { body(*to); });
}

void FaultyCluster::ServePull(size_t index, size_t worker,
                              const proto::Task& task) {
  FaultyLife& life = *processes_[index].life;
  const Generation generation(task.key().generation());
  const auto read =
      life.shard->Pull({generation, Version(task.version()), task.exact()});
  if (absl::IsFailedPrecondition(read.status())) {
    return Refuse(index, worker, task.key(), read.status());
  }
  // The version is gone, so the task's Cancel is on its way.
  if (!read.ok()) return;
  Expect(life.shard->generation() == generation,
         absl::StrCat(Name(index), " answers its own generation only"));
  if (!read->has_value()) {
    life.parked.push_back({worker, task});
    const int64_t shard = processes_[index].peer.id;
    return Send(index, worker,
                [=, this, key = task.key()] { Answered(worker, shard, key); });
  }
  const ReadId id = (*read)->id;
  const int64_t version = (*read)->snapshot->version.value();
  Expect(task.exact() ? version == task.version() : version >= task.version(),
         absl::StrCat(Name(worker), " asked for version ", task.version(),
                      " and got ", version));
  life.reads[id] = (*read)->snapshot;
  // Sending takes time, and updates go on meanwhile.
  const absl::Duration most =
      chance_.Draw(8) == 0 ? absl::Seconds(2) : absl::Milliseconds(40);
  At(index, chance_.DrawTime(absl::Microseconds(10), most),
     [=, this, key = task.key()] {
       EndRead(index, worker, key, generation, id);
     });
}

void FaultyCluster::EndRead(size_t index, size_t worker, const proto::Key& key,
                            Generation generation, ReadId id) {
  FaultyLife& life = *processes_[index].life;
  const auto it = life.reads.find(id);
  if (it == life.reads.end()) return;  // An update has ended the read.
  const auto snapshot = it->second;
  life.reads.erase(it);
  ++reads_;
  const int64_t version = snapshot->version.value();
  CheckFloats(*life.shard, generation, version, snapshot->chunks,
              absl::StrCat(Name(index), " hands out version ", version));
  life.shard->EndRead(id);
  const int64_t shard = processes_[index].peer.id;
  Send(index, worker, [=, this] { Pulled(worker, shard, key, version); });
}

// Checks against a single shard that executed the same commits.
void FaultyCluster::CheckFloats(Shard& shard, Generation generation,
                                int64_t version, const Chunks& chunks,
                                const std::string& what) {
  LineageChecker::Branch* branch = lineage_.Find(generation);
  if (branch == nullptr || !branch->weights.Has(version)) {
    return Expect(false, absl::StrCat(what, ", which nobody decided"));
  }
  const float expected = branch->weights.At(version);
  for (int c = 0; c < shard.grid().count(); ++c) {
    shard.Make(c);
    const float* floats = chunks[c].data();
    Expect(std::all_of(floats, floats + shard.grid().size(c),
                       [&](float w) { return w == expected; }),
           absl::StrCat(what, " of generation ", generation.value(), ": ",
                        floats[0], ", the log makes ", expected));
  }
}

void FaultyCluster::Pulled(size_t worker, int64_t shard, const proto::Key& key,
                           int64_t version) {
  if (!Has(worker, key)) return;
  Answered(worker, shard, key);
  Work& work = *processes_[worker].life->work;
  if (work.bases[shard] < 0) work.bases[shard] = version;
  if (work.pushing || std::ranges::count(work.bases, -1) > 0) return;
  work.pushing = true;
  // Workers differ in speed.
  const absl::Duration most =
      absl::Milliseconds(60 * (1 + processes_[worker].peer.id));
  At(worker, chance_.DrawTime(absl::Milliseconds(10), most), [=, this] {
    for (int s = 0; s < shards(); ++s) PushAndAgain(worker, s, key);
  });
}

void FaultyCluster::PushAndAgain(size_t worker, int64_t shard,
                                 const proto::Key& key) {
  if (!Has(worker, key)) return;
  const Work& work = *processes_[worker].life->work;
  if (work.staged[shard] || !Asks(worker, shard, key)) return;
  const int chunks = processes_[NewestOf(shard)].life->shard->grid().count();
  for (int c = 0; c < chunks; ++c) {
    SendToShard(worker, shard, [=, this, task = work.task](size_t at) {
      ServePush(at, worker, task, c);
    });
  }
  At(worker, absl::ToInt64Nanoseconds(kAskAgain),
     [=, this] { PushAndAgain(worker, shard, key); });
}

void FaultyCluster::ServePush(size_t index, size_t worker,
                              const proto::Task& task, int chunk) {
  FaultyLife& life = *processes_[index].life;
  const ChunkGrid& grid = life.shard->grid();
  const std::vector<float> floats(
      grid.size(chunk), ReferenceWeights::GradientOf(task.first_batch()));
  const absl::Span<const uint8_t> bytes(
      reinterpret_cast<const uint8_t*>(floats.data()),
      floats.size() * sizeof(float));
  const PushChunkHeader header = {KeyFromProto(task.key()), task.grant(),
                                  grid.begin(chunk), FloatType::kFp32};
  if (!life.shard->Admits(header, "")) {  // It is pushed again.
    const int64_t shard = processes_[index].peer.id;
    return Send(index, worker,
                [=, this, key = task.key()] { Answered(worker, shard, key); });
  }
  const auto staged =
      life.shard->Stage(header, Payload({bytes}, ChunkChecksum(floats)));
  // The task has ended, so its Cancel or its verdict is on its way.
  if (absl::IsAborted(staged.status())) return;
  const bool same =
      life.shard->generation() == Generation(task.key().generation());
  Expect(staged.ok() == same,
         absl::StrCat("a push is taken in its own generation, and only there: ",
                      staged.status().message()));
  if (!same) return Refuse(index, worker, task.key(), staged.status());
  if (!staged.ok() || !*staged) return;
  const int64_t shard = processes_[index].peer.id;
  Send(index, worker, [=, this] { Staged(worker, shard, task.key()); });
}

// Refuses a message of another generation.
void FaultyCluster::Refuse(size_t process, size_t worker, const proto::Key& key,
                           const absl::Status& why) {
  ++chance_.counts.stale;
  Send(process, worker, [=, this] { GiveUp(worker, key, why); });
}

void FaultyCluster::Staged(size_t worker, int64_t shard,
                           const proto::Key& key) {
  if (!Has(worker, key)) return;
  Answered(worker, shard, key);
  Work& work = *processes_[worker].life->work;
  work.staged[shard] = true;
  if (std::ranges::count(work.staged, false) > 0) return;
  proto::ToCoordinator message;
  if (chance_.Strikes(chance_.faults.spoil) &&
      spoiled_.insert(work.task.first_batch()).second) {
    ++chance_.counts.spoiled;
    *message.mutable_rejected()->mutable_key() = key;
    message.mutable_rejected()->set_reason("NaN");
    Answer(worker, std::move(message));
    return Done(worker);
  }
  proto::Ready* ready = message.mutable_ready();
  *ready->mutable_key() = key;
  for (const int64_t base : work.bases) ready->add_shard_base(base);
  const BatchGrid grid = JobGrid(options_.job, options_.train_samples);
  int64_t samples = 0;
  for (int b = 0; b < work.task.batches(); ++b) {
    samples += grid.SliceOf(BatchId(work.task.first_batch() + b)).samples;
  }
  ready->set_samples(samples);
  ready->set_loss(1);
  processes_[worker].life->end.delivered = true;
  Answer(worker, std::move(message));
  Done(worker);
}

// ---- The shard. ----

void FaultyCluster::Execute(size_t index, const proto::Decision& message) {
  FaultyLife& life = *processes_[index].life;
  const auto decision = DecisionFromProto(message);
  Expect(decision.ok(), "decisions are well formed");
  absl::StatusOr<Shard::Executed> done = life.shard->Begin(*decision);
  proto::ToCoordinator executed;
  executed.mutable_executed()->set_decision(life.shard->executed());
  if (!done.ok()) {
    const std::string fault(done.status().message());
    Expect(MayFail(life, *decision),
           absl::StrCat("decisions can be executed: ", fault));
    executed.mutable_executed()->set_fault(fault);
    return Answer(index, std::move(executed));
  }
  for (const ReadId id : done->ended_reads) {
    chance_.counts.ended_reads += life.reads.erase(id);
  }
  CheckShard(index);
  executed.mutable_executed()->set_version(life.shard->version().value());
  Answer(index, std::move(executed));
  if (done->held.has_value()) BeginWriting(index, *std::move(done->held));
  for (const auto& pull : std::exchange(life.parked, {})) {
    ServePull(index, pull.worker, pull.task);
  }
}

// A Restore may fail if a replaced coordinator has removed the checkpoint, or
// if the disk does not answer. A Discard may fail on a shard that joins when
// its generation is over.
bool FaultyCluster::MayFail(const FaultyLife& life,
                            const Decision& decision) const {
  if (std::holds_alternative<Restore>(decision.what)) {
    return chance_.counts.doubles + chance_.counts.reads_given_up > 0;
  }
  const Lead& lead = *leads_[life.connection->lead()];
  return !life.shard->restored() && lead.end().has_value();
}

// Guarantees 1 and 2: the same gradients, each once, in the same order.
void FaultyCluster::CheckShard(size_t process) {
  Shard& shard = *processes_[process].life->shard;
  // Every other version is made when it is read, or by what comes next.
  if (shard.version().value() % 2 == 1) return;
  const auto read = shard.Pull({shard.generation(), shard.version(), true});
  if (!read.ok() || !read->has_value()) return;
  CheckFloats(shard, shard.generation(), shard.version().value(),
              (*read)->snapshot->chunks,
              absl::StrCat(Name(process), " stands at version ",
                           shard.version().value()));
  shard.EndRead((*read)->id);
}

}  // namespace sluice
