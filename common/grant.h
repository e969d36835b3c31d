#ifndef SLUICE_COMMON_GRANT_H_
#define SLUICE_COMMON_GRANT_H_

#include <cstdint>

#include "common/ids.h"

namespace sluice {

// The number by which a shard recognises that room was granted for the gradient
// `key`: XXH3-64, seeded with `secret`, over the key's generation, worker,
// incarnation and sequence as four little-endian 64-bit integers.
//
// Coordinator and shards share `secret` (Restore), so a shard verifies a grant
// without a message. It protects against mistakes and stale peers. It is no
// defence against an attacker, who could read it off the wire.
uint64_t GrantFor(uint64_t secret, const GradientKey& key);

}  // namespace sluice

#endif  // SLUICE_COMMON_GRANT_H_
