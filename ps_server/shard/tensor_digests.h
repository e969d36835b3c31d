#ifndef SLUICE_PS_SERVER_SHARD_TENSOR_DIGESTS_H_
#define SLUICE_PS_SERVER_SHARD_TENSOR_DIGESTS_H_

#include <cstdint>
#include <vector>

#include "common/parameter_layout.h"
#include "ps_server/shard/chunk_grid.h"
#include "ps_server/shard/weight_store.h"

namespace sluice {

// The tensors of which `range` holds some, in order.
std::vector<const TensorSpec*> TensorsIn(const ParameterLayout& layout,
                                         ParameterRange range);

// XXH3-64 of the bytes (little-endian float32) of what `range` holds of each
// of TensorsIn, for a shard whose chunks of one version are `snapshot`: equal
// for equal bits, however the range is cut into chunks.
std::vector<uint64_t> TensorDigests(const WeightStore::Snapshot& snapshot,
                                    const ChunkGrid& grid,
                                    const ParameterLayout& layout,
                                    ParameterRange range);

}  // namespace sluice

#endif  // SLUICE_PS_SERVER_SHARD_TENSOR_DIGESTS_H_
