#ifndef SLUICE_COMMON_GRANT_H_
#define SLUICE_COMMON_GRANT_H_

#include <string>

#include "absl/strings/string_view.h"
#include "common/ids.h"

namespace sluice {

// What a grant is keyed with, in bytes; one for each generation.
inline constexpr int kGrantSecretBytes = 32;

// The 16 bytes by which a shard recognises that room was granted for the
// gradient `key` of the worker whose certificate's key is `holder`
// (Caller::key; empty in plain text): the first half of HMAC-SHA256 (RFC 2104),
// keyed with `secret`, over the key's generation, worker, incarnation and
// sequence as four little-endian 64-bit integers, and then `holder`.
//
// Coordinator and shards share `secret` (Restore), so a shard verifies a grant
// without a message. Who has not got the secret cannot make one, and with TLS
// one that was made for somebody else is of no use.
std::string GrantFor(absl::string_view secret, const GradientKey& key,
                     absl::string_view holder = {});

}  // namespace sluice

#endif  // SLUICE_COMMON_GRANT_H_
