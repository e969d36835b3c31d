#include "common/secret.h"

#include <openssl/crypto.h>
#include <openssl/rand.h>

#include "common/status_macros.h"

namespace sluice {

std::string DrawSecret(int bytes) {
  std::string secret(bytes, '\0');
  SLUICE_CHECK(
      RAND_bytes(reinterpret_cast<unsigned char*>(secret.data()), bytes) == 1);
  return secret;
}

bool SameSecret(absl::string_view a, absl::string_view b) {
  return a.size() == b.size() &&
         CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace sluice
