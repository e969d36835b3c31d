// The key is hashed as fixed bytes, not as a struct in memory, so that the
// grant does not depend on the compiler's layout or the byte order.
#include "common/grant.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "common/secret.h"
#include "common/status_macros.h"

namespace sluice {
namespace {

constexpr size_t kGrantBytes = 16;

void AppendLittleEndian(uint64_t value, std::string* out) {
  for (int i = 0; i < 8; ++i) {
    out->push_back(static_cast<char>(value >> (8 * i)));
  }
}

}  // namespace

std::string GrantFor(absl::string_view secret, const GradientKey& key,
                     absl::string_view holder, std::optional<int64_t> turn) {
  std::string behind;
  if (turn.has_value()) AppendLittleEndian(*turn, &behind);
  std::string said;
  AppendLittleEndian(key.generation.value(), &said);
  AppendLittleEndian(key.worker.value(), &said);
  AppendLittleEndian(key.incarnation.value(), &said);
  AppendLittleEndian(key.sequence.value(), &said);
  absl::StrAppend(&said, behind, holder);
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int bytes = 0;
  SLUICE_CHECK(HMAC(EVP_sha256(), secret.data(),
                    static_cast<int>(secret.size()),
                    reinterpret_cast<const unsigned char*>(said.data()),
                    said.size(), digest, &bytes) != nullptr);
  return std::string(reinterpret_cast<const char*>(digest), kGrantBytes) +
         behind;
}

std::optional<int64_t> TurnOf(absl::string_view grant) {
  if (grant.size() != kGrantBytes + 8) return std::nullopt;
  uint64_t turn = 0;
  for (int i = 7; i >= 0; --i) {
    turn = turn << 8 | static_cast<unsigned char>(grant[kGrantBytes + i]);
  }
  return static_cast<int64_t>(turn);
}

bool GrantIsFor(absl::string_view grant, absl::string_view secret,
                const GradientKey& key, absl::string_view holder) {
  return SameSecret(grant, GrantFor(secret, key, holder, TurnOf(grant)));
}

}  // namespace sluice
