#ifndef SLUICE_COMMON_GRANT_H_
#define SLUICE_COMMON_GRANT_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "common/ids.h"

struct evp_mac_ctx_st;  // OpenSSL's EVP_MAC_CTX.

namespace sluice {

// What a grant is keyed with, in bytes; one for each generation.
inline constexpr int kGrantSecretBytes = 32;

// Makes and verifies grants, the bytes by which a shard recognises that room
// was granted for the gradient `key` of the worker whose certificate's key is
// `holder` (Caller::key; empty in plain text): the first half of HMAC-SHA256
// (RFC 2104), 16 bytes, keyed with a secret, over the key's generation, worker,
// incarnation and sequence, and `turn` if there is one, as little-endian 64-bit
// integers, and then `holder`. A turn follows behind these 16 bytes, as it was
// hashed.
//
// Coordinator and shards share the secret (Restore), so a shard verifies a
// grant without a message. Who has not got the secret cannot make one, and with
// TLS one that was made for somebody else is of no use.
//
// Not thread-safe.
class GrantKey {
 public:
  explicit GrantKey(absl::string_view secret);

  std::string GrantFor(const GradientKey& key, absl::string_view holder = {},
                       std::optional<int64_t> turn = std::nullopt) const;
  // Whether `grant` is GrantFor's. Takes the same time however much of it is
  // right.
  bool Made(absl::string_view grant, const GradientKey& key,
            absl::string_view holder = {}) const;

 private:
  struct Free {
    void operator()(evp_mac_ctx_st* mac) const;
  };
  // Keyed once, because that costs five times as much as a grant.
  std::unique_ptr<evp_mac_ctx_st, Free> mac_;
};

// The turn that a grant says; nullopt: it says none. To be believed only where
// the GrantKey made it.
std::optional<int64_t> TurnOf(absl::string_view grant);

}  // namespace sluice

#endif  // SLUICE_COMMON_GRANT_H_
