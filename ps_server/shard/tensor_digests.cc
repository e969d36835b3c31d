// A tensor's bytes are hashed as one stream, whatever chunks they lie in, so
// the digest depends on the shard's range but not on chunk_bytes. Where two
// shards share a tensor, each digests its own part of it.
#include "ps_server/shard/tensor_digests.h"

#include <xxhash.h>

#include <algorithm>
#include <memory>

#include "common/status_macros.h"

namespace sluice {
namespace {

struct FreeState {
  void operator()(XXH3_state_t* state) const { XXH3_freeState(state); }
};

}  // namespace

std::vector<const TensorSpec*> TensorsIn(const ParameterLayout& layout,
                                         ParameterRange range) {
  std::vector<const TensorSpec*> tensors;
  for (const TensorSpec& tensor : layout.tensors()) {
    const int64_t end = tensor.offset + tensor.size;
    if (std::max(tensor.offset, range.begin) < std::min(end, range.end)) {
      tensors.push_back(&tensor);
    }
  }
  return tensors;
}

std::vector<uint64_t> TensorDigests(const WeightStore::Snapshot& snapshot,
                                    const ChunkGrid& grid,
                                    const ParameterLayout& layout,
                                    ParameterRange range) {
  const std::unique_ptr<XXH3_state_t, FreeState> state(XXH3_createState());
  SLUICE_CHECK(state != nullptr);
  std::vector<uint64_t> digests;
  for (const TensorSpec* tensor : TensorsIn(layout, range)) {
    // From here on in floats from the start of the range.
    int64_t at = std::max(tensor->offset, range.begin) - range.begin;
    const int64_t end =
        std::min(tensor->offset + tensor->size, range.end) - range.begin;
    XXH3_64bits_reset(state.get());
    while (at < end) {
      const int chunk = static_cast<int>(at / grid.chunk_floats());
      const int64_t in_chunk = at - grid.begin(chunk);
      const int64_t floats = std::min(end - at, grid.size(chunk) - in_chunk);
      XXH3_64bits_update(state.get(), snapshot.chunks[chunk].data() + in_chunk,
                         floats * sizeof(float));
      at += floats;
    }
    digests.push_back(XXH3_64bits_digest(state.get()));
  }
  return digests;
}

}  // namespace sluice
