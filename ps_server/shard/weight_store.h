#ifndef SLUICE_PS_SERVER_SHARD_WEIGHT_STORE_H_
#define SLUICE_PS_SERVER_SHARD_WEIGHT_STORE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/ids.h"
#include "ps_server/shard/chunk.h"
#include "ps_server/shard/chunk_grid.h"

namespace sluice {

// One reader's hold on one version.
using ReadId = Id<struct ReadTag>;

// A shard's weights, as versions that readers hold whole while training goes
// on. A version is a table of counted chunks. An update closes the newest,
// writes each chunk in place when nobody else holds it and into another one
// when somebody does, and publishes the new table in one step.
//
// Memory: weights x (1 + max_held), and one chunk per call still sending.
//
// Not thread-safe: call from the exchange thread.
class WeightStore {
 public:
  // One version. Its chunks do not change while somebody holds it, once they
  // are written: those of the newest may have to be first (Prepare).
  struct Snapshot {
    Version version;
    std::vector<ChunkRef> chunks;
  };
  struct Read {
    ReadId id;
    std::shared_ptr<const Snapshot> snapshot;
  };

  // `max_held`: old versions that may be held at once, by reads or pins.
  // `shared`: where chunks are, as far as it has slots (of the grid's size).
  WeightStore(ChunkGrid grid, int max_held,
              std::shared_ptr<SharedChunks> shared = nullptr);

  // Starts anew with `weights` as `version`. Ends all reads and pins.
  // REQUIRES: weights.size() == grid.floats().
  void Initialize(Version version, absl::Span<const float> weights);

  // REQUIRES (all below): Initialize has been called.
  Version version() const { return current_->version; }

  // Holds the newest version, or `version`: the newest or a pinned one;
  // nullopt for any other. The caller ends the read, unless Close ended it.
  Read BeginRead();
  std::optional<Read> BeginRead(Version version);
  // An id that is no longer known is ignored.
  void EndRead(ReadId id);

  // An update is Close, then Prepare of every chunk, then Publish.
  //
  // From Close on nobody can begin to read the newest version. Returns the
  // reads ended because more than `max_held` versions would be held: those of
  // the oldest that is not pinned. Their holders must let go of the snapshot.
  std::vector<ReadId> Close();
  struct Piece {
    ChunkRef from;      // The closed version's chunk, held.
    float* to;          // The next version's; may be the same memory.
    bool had_checksum;  // Somebody used the checksum of `from`.
  };
  // Says where `chunk` is to be read and written. It may be written after
  // Publish, if nobody looks at it before that.
  Piece Prepare(int chunk);
  void Publish();
  // Computes the checksum of a chunk of the newest version before anybody uses
  // it. REQUIRES: the chunk is written.
  void ComputeChecksum(int chunk) const;

  // Retains the newest version until as many Releases as Pins have come.
  // Errors: kNotFound where that version is not the newest, or not pinned.
  absl::Status Pin(Version version);
  absl::Status Release(Version version);

  // For counters: old versions held, and chunks copied instead of written in
  // place.
  int held() const;
  int64_t chunks_copied() const { return chunks_copied_; }

 private:
  struct Hold {
    std::shared_ptr<const Snapshot> snapshot;
    std::vector<ReadId> reads;
    int pins = 0;
  };

  Read Begin(Hold* hold, std::shared_ptr<const Snapshot> snapshot);
  void DropIfFree(Version version);

  // Constant after construction.
  const ChunkGrid grid_;
  const size_t max_held_;

  std::shared_ptr<const Snapshot> current_;
  // Versions with a read or a pin; the newest may be among them.
  std::map<Version, Hold> holds_;
  absl::flat_hash_map<ReadId, Version> reads_;
  ReadId last_read_;

  // Between Close and Publish: the next version.
  std::vector<ChunkRef> next_;
  ChunkPool
      pool_;  // All have the first chunk's size: each can take any's place.
  int64_t chunks_copied_ = 0;
};

}  // namespace sluice

#endif  // SLUICE_PS_SERVER_SHARD_WEIGHT_STORE_H_
