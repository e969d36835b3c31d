#ifndef SLUICE_PS_SERVER_SHARD_SHARD_H_
#define SLUICE_PS_SERVER_SHARD_SHARD_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/ids.h"
#include "common/parameter_layout.h"
#include "common/wire/chunk_header.h"
#include "common/wire/payload.h"
#include "common/wire/wire_format.h"
#include "proto/job.pb.h"
#include "ps_server/decisions/decision.h"
#include "ps_server/shard/chunk.h"
#include "ps_server/shard/chunk_grid.h"
#include "ps_server/shard/optimizer.h"
#include "ps_server/shard/shared_chunks.h"
#include "ps_server/shard/staging.h"
#include "ps_server/shard/weight_store.h"

namespace sluice {

// A version above 0 as a checkpoint, or whoever stands in for one, holds it: of
// `range` the weights, then the state of the optimizer, by
// Optimizer::StateNames.
using StoredVersion =
    std::function<absl::StatusOr<std::vector<std::vector<float>>>(
        const Restore& of, ParameterRange range)>;

// What a shard needs to know of the job; ps_server/shard_options_from_job.h
// makes it from one.
struct ShardOptions {
  ShardId id;
  // Version 0 of a range of the flat vector. Called at every Restore.
  std::function<absl::StatusOr<std::vector<float>>(ParameterRange)>
      initial_weights;
  ParameterLayout layout;
  proto::Optimizer optimizer;              // With defaults filled in.
  int64_t chunk_bytes = 1 << 20;           // A multiple of 4.
  int max_held = 2;                        // Old versions (WeightStore).
  int staged_gradients = 1;                // Slices (Staging).
  FloatType push_type = FloatType::kFp32;  // How gradients travel.
  // Where members' parts of the flat vector begin, but the first's.
  std::vector<int64_t> member_cuts = {};
  // Versions between two whose digests are taken; 0: none are.
  int64_t digest_every = 0;
  // Where weights are, for workers of this host; nullptr: in memory of their
  // own.
  std::shared_ptr<SharedChunks> shared_weights = nullptr;
  // Called at a Restore of such a version; without it that is refused.
  StoredVersion stored_version = nullptr;
};

// Holds one range of the weights: stages gradients, executes the coordinator's
// decisions strictly in order, and hands out versions. Pure: no thread, lock,
// socket or clock.
//
// Until the first Restore everything else is refused (kFailedPrecondition).
// Every error names the shard.
//
// Not thread-safe: call from the exchange thread.
class Shard {
 public:
  explicit Shard(ShardOptions options);

  // A version as it is now: the weights, then the optimizer's state
  // (Optimizer::StateNames). Training goes on, and nothing of it changes while
  // it is held; it may be read, and let go, on any thread. Costs the memory of
  // what the next updates write.
  struct HeldArray {
    std::string name;
    std::vector<ChunkRef> chunks;
  };
  struct HeldVersion {
    Version version;
    std::vector<HeldArray> arrays;
  };

  // What a decision led to, besides its version.
  struct Executed {
    // Of a Commit: reads that it ended, because too many old versions were
    // held. Their holders must let go of the snapshot.
    std::vector<ReadId> ended_reads;
    // Of a Commit: digests (tensor_digests.h) of the version that it made,
    // where they are due.
    std::vector<uint64_t> digests;
    // Of a Store: its version.
    std::optional<HeldVersion> held;
  };

  // Executes the next decision; one that was executed before is OK and
  // changes nothing. Errors: a decision that cannot be executed (a gap in the
  // numbers, a version that is not the next, a gradient that is not
  // staged, a Restore without its weights); their text says which, the code
  // nothing.
  // Nothing of it has been done then; the shard latches, and answers every
  // further decision with the same error.
  absl::StatusOr<Executed> Execute(const Decision& decision);

  // The same, as the daemon does it: a Commit's version may be there before its
  // weights. Each chunk is made by its Make, which whoever reads it calls
  // first, or by what comes next and needs it.
  absl::StatusOr<Executed> Begin(const Decision& decision);
  // Makes a chunk of the newest version, unless that has been done.
  void Make(int chunk);
  // Makes a chunk that nobody has asked for yet. If the chunk's checksum was
  // used in the version before, it is computed, too: the next pull needs it.
  // REQUIRES: chunk == unmade().
  void MakeAhead(int chunk);
  // The next chunk to be made; nullopt: all are.
  std::optional<int> unmade() const;

  // The last decision executed; 0 before the first.
  int64_t executed() const { return executed_; }
  bool restored() const { return generation_.value() > 0; }
  // REQUIRES: restored().
  Version version() const { return store_.version(); }
  Generation generation() const { return generation_; }
  // Of the range, as pulls have it; that of a gradient may be cut at the bounds
  // of members' parts as well (staging().grid()).
  const ChunkGrid& grid() const { return grid_; }
  // Of the flat vector.
  const ParameterRange& range() const { return range_; }
  int64_t vector_floats() const { return options_.layout.size(); }
  const WireFormat& wire_format() const { return wire_format_; }

  // As Staging::Admits; frees room that is held by what is being applied.
  bool Admits(const PushChunkHeader& header, absl::string_view holder);
  // Takes one chunk of a gradient; returns whether all of it, or of its
  // member's part of it, is here now. Makes the newest version first where that
  // still holds the room that it needs. Errors as Staging::Stage, and
  // kFailedPrecondition before the first Restore.
  absl::StatusOr<bool> Stage(const PushChunkHeader& header,
                             const Payload& payload,
                             absl::string_view holder = {});

  struct PullQuery {
    Generation generation;
    Version version;
    // Exactly `version` (the newest, or a pinned one); else that or newer.
    bool exact = false;
  };
  // The weights asked for, of which those of the newest version may have to be
  // made before they are read (Begin); nullopt: that version is not there yet,
  // so ask again after the next decision. Errors: kAborted (VERSION_GONE),
  // kFailedPrecondition for another generation. The caller ends the read.
  absl::StatusOr<std::optional<WeightStore::Read>> Pull(const PullQuery& query);
  void EndRead(ReadId id) { store_.EndRead(id); }

  // The newest version. REQUIRES: restored().
  HeldVersion Hold();

  // nullptr: nobody else can read the weights where they are.
  const SharedChunks* shared_weights() const {
    return options_.shared_weights.get();
  }
  const WeightStore& store() const { return store_; }
  const Staging& staging() const { return staging_; }
  // As Staging's.
  std::string TakeReady(const GradientKey& key) {
    return staging_.TakeReady(key);
  }

 private:
  absl::StatusOr<Executed> DoNext(const Decision& decision);
  absl::StatusOr<Executed> Do(const Restore& restore);
  absl::StatusOr<Executed> Do(const Commit& commit);
  absl::StatusOr<Executed> Do(const Fold& fold);
  absl::StatusOr<Executed> Do(const Discard& discard);
  absl::StatusOr<Executed> Do(const Pin& pin);
  absl::StatusOr<Executed> Do(const Release& release);
  absl::StatusOr<Executed> Do(const Store& store);

  absl::Status LoadVersion(const Restore& restore);
  // What the update that makes `version` is the sum of: what was folded, and
  // `entries`, whose gradients are staged. `total_weight` is the update's.
  struct Addends {
    std::vector<const float*> gradients;
    std::vector<float> factors, shares;
  };
  absl::StatusOr<Addends> FindAll(Version version, double total_weight,
                                  absl::Span<const CommitEntry> entries) const;
  void MakeAll();
  // Of the newest version; empty where they are not due.
  std::vector<uint64_t> DigestsIfDue();
  // The status with "shard N: " before its message.
  absl::Status Named(const absl::Status& status) const;

  // Constant after construction.
  const ShardOptions options_;
  const ParameterRange range_;
  const ChunkGrid grid_;
  const WireFormat wire_format_;

  Generation generation_;  // 0 until restored.
  int64_t executed_ = 0;
  absl::Status fault_;
  WeightStore store_;
  Staging staging_;
  Optimizer optimizer_;
  // Of the next version, the sum of the gradients that have been folded; has
  // memory from the first Fold on.
  AlignedFloats sum_ = nullptr;
  std::vector<CommitEntry> folded_;

  // The newest version, while chunks of it are to be made.
  struct Making {
    Commit commit;
    Addends of;  // `sum_`, if any was folded, and what is in Staging.
    std::vector<std::optional<WeightStore::Piece>> pieces;  // nullopt: made.
    int next;  // The first that has not been made.
  };
  std::optional<Making> making_;
};

}  // namespace sluice

#endif  // SLUICE_PS_SERVER_SHARD_SHARD_H_
