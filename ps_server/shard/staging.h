#ifndef SLUICE_PS_SERVER_SHARD_STAGING_H_
#define SLUICE_PS_SERVER_SHARD_STAGING_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/grant.h"
#include "common/ids.h"
#include "common/parameter_layout.h"
#include "common/wire/chunk_header.h"
#include "common/wire/payload.h"
#include "common/wire/wire_format.h"
#include "ps_server/shard/chunk.h"
#include "ps_server/shard/chunk_grid.h"

namespace sluice {

// The gradients' slices a shard has received and not yet applied. A slice is
// *staged* when all its chunks are here; it then stays until its Commit or
// Discard. The grid's parts come from members of a worker that push each their
// own.
//
// Memory: at most `max_gradients` slices. Where grants say turns, there may be
// more gradients in an update than that: then room is given in the order of
// turns, as what was folded frees it (Admits).
//
// Not thread-safe: call from the exchange thread.
class Staging {
 public:
  // `layout` names tensors in errors and must outlive this. Chunks travel as
  // `type`.
  Staging(const ParameterLayout* layout, ParameterRange range, ChunkGrid grid,
          FloatType type, int max_gradients);

  // Begins a generation: drops everything. `secret` keys its grants. Call it
  // before Admits and Stage.
  void Reset(Generation generation, const std::string& secret);

  // False: the chunk's gradient finds no room yet, since its turn is to come or
  // what has ended has not been discarded; ask again after the next decision.
  // True: Stage says what is to be said.
  bool Admits(const PushChunkHeader& header, absl::string_view holder) const;
  // The gradients with turns below `turn` have been folded into their update.
  void BeginTurn(int64_t turn) { turn_ = turn; }
  int64_t turn() const { return turn_; }

  // Takes one chunk from `holder` (GrantKey); returns whether all of its part
  // of the gradient is here now. A chunk that is here already is not looked at
  // again; so a push may be repeated, whole or in part. Errors leave what was
  // staged before unchanged:
  //   kFailedPrecondition  the generation is another one
  //   kPermissionDenied    the grant is not for the key, or not `holder`'s
  //   kAborted             the task has ended
  //   kResourceExhausted   max_gradients are here already
  //   kInvalidArgument     wrong type, offset or size; or a NaN or infinity,
  //                        with its tensor and position
  //   kDataLoss            the checksum is wrong, or a Ready too long
  absl::StatusOr<bool> Stage(const PushChunkHeader& header,
                             const Payload& payload,
                             absl::string_view holder = {});

  // The slice (grid.floats() floats) of a staged gradient, until End;
  // kNotFound says how much of it is here.
  absl::StatusOr<const float*> Find(const GradientKey& key) const;

  // Of a gradient that is here, or the rest of which is to come: the floats of
  // the part that float `offset` of the range lies in. kAborted: the task has
  // ended.
  absl::StatusOr<int64_t> FloatsHere(const GradientKey& key,
                                     int64_t offset) const;

  // The Ready that came with a gradient all of which is here, once: what is
  // repeated afterwards brings none. Empty: none has come.
  std::string TakeReady(const GradientKey& key);

  // The task is over: frees its room. Later chunks of this key, and of earlier
  // ones of the same incarnation, are refused. Gradients already staged stay
  // until their own End.
  void End(const GradientKey& key);

  const ChunkGrid& grid() const { return grid_; }
  // Gradients here, staged or not.
  int held() const { return static_cast<int>(entries_.size()); }
  int64_t duplicate_chunks() const { return duplicate_chunks_; }

 private:
  struct Entry {
    AlignedFloats floats;
    std::vector<bool> here;    // By chunk.
    std::vector<int> missing;  // Chunks, by part.
    int missing_in_all = 0;
    std::string ready;

    void Bring(const std::string& with_it) {
      if (!with_it.empty()) ready = with_it;
    }
  };
  using Life = std::pair<WorkerId, Incarnation>;

  // What can be said of a key before looking at the chunk.
  absl::Status CheckKey(const PushChunkHeader& header,
                        absl::string_view holder) const;
  // The chunk's index, where type, offset and size are right.
  absl::StatusOr<int> CheckPlace(const PushChunkHeader& header,
                                 const Payload& payload) const;
  // Where chunk `chunk` lies in the flat vector.
  ParameterRange RangeOf(int chunk) const;
  // Says where the chunk's float `at`, of that value, lies.
  absl::Status NotFinite(const GradientKey& key, int chunk, int64_t at,
                         float value) const;
  // The gradient's entry, made when there is room.
  absl::StatusOr<Entry*> FindOrMake(const GradientKey& key);

  // Constant after construction.
  const ParameterLayout* const layout_;
  const ParameterRange range_;
  const ChunkGrid grid_;
  const WireFormat format_;
  const FloatType type_;
  const int max_gradients_;

  Generation generation_;
  std::optional<GrantKey> grants_;  // Since Reset.
  int64_t turn_ = 0;
  absl::flat_hash_map<GradientKey, Entry> entries_;
  // The highest sequence that ended in each life of a worker. A worker has one
  // unfinished task at a time, so all earlier ones have ended too.
  absl::flat_hash_map<Life, Sequence> ended_;
  // Slices to be used again.
  std::vector<AlignedFloats> free_;
  int64_t duplicate_chunks_ = 0;
};

}  // namespace sluice

#endif  // SLUICE_PS_SERVER_SHARD_STAGING_H_
