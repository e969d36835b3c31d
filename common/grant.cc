// The key is hashed as fixed bytes, not as a struct in memory, so that the
// grant does not depend on the compiler's layout or the byte order.
#include "common/grant.h"

#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/params.h>

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "common/secret.h"
#include "common/status_macros.h"

namespace sluice {
namespace {

constexpr size_t kGrantBytes = 16;
constexpr size_t kDigestBytes = 32;

void AppendLittleEndian(uint64_t value, std::string* out) {
  char bytes[8];
  for (int i = 0; i < 8; ++i) bytes[i] = static_cast<char>(value >> (8 * i));
  out->append(bytes, sizeof(bytes));
}

// Never null, which would mean "no key".
const unsigned char* Bytes(absl::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.empty() ? ""
                                                             : text.data());
}

}  // namespace

void GrantKey::Free::operator()(EVP_MAC_CTX* mac) const {
  EVP_MAC_CTX_free(mac);
}

GrantKey::GrantKey(absl::string_view secret) {
  EVP_MAC* const hmac = EVP_MAC_fetch(nullptr, OSSL_MAC_NAME_HMAC, nullptr);
  mac_.reset(EVP_MAC_CTX_new(hmac));
  EVP_MAC_free(hmac);
  char digest[] = OSSL_DIGEST_NAME_SHA2_256;
  const OSSL_PARAM params[] = {
      OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest, 0),
      OSSL_PARAM_construct_end()};
  SLUICE_CHECK(EVP_MAC_init(mac_.get(), Bytes(secret), secret.size(), params) ==
               1);
}

std::string GrantKey::GrantFor(const GradientKey& key, absl::string_view holder,
                               std::optional<int64_t> turn) const {
  std::string behind;
  if (turn.has_value()) AppendLittleEndian(*turn, &behind);
  std::string said;
  AppendLittleEndian(key.generation.value(), &said);
  AppendLittleEndian(key.worker.value(), &said);
  AppendLittleEndian(key.incarnation.value(), &said);
  AppendLittleEndian(key.sequence.value(), &said);
  absl::StrAppend(&said, behind, holder);
  unsigned char digest[kDigestBytes];
  size_t bytes = 0;
  EVP_MAC_CTX* const mac = mac_.get();
  // Without a key it begins anew with the one that it has.
  SLUICE_CHECK(EVP_MAC_init(mac, nullptr, 0, nullptr) == 1 &&
               EVP_MAC_update(mac, Bytes(said), said.size()) == 1 &&
               EVP_MAC_final(mac, digest, &bytes, kDigestBytes) == 1);
  return std::string(reinterpret_cast<const char*>(digest), kGrantBytes) +
         behind;
}

bool GrantKey::Made(absl::string_view grant, const GradientKey& key,
                    absl::string_view holder) const {
  return SameSecret(grant, GrantFor(key, holder, TurnOf(grant)));
}

std::optional<int64_t> TurnOf(absl::string_view grant) {
  if (grant.size() != kGrantBytes + 8) return std::nullopt;
  uint64_t turn = 0;
  for (int i = 7; i >= 0; --i) {
    turn = turn << 8 | static_cast<unsigned char>(grant[kGrantBytes + i]);
  }
  return static_cast<int64_t>(turn);
}

}  // namespace sluice
