// The key is hashed as fixed bytes, not as a struct in memory, so that the
// grant does not depend on the compiler's layout or the byte order.
#include "common/grant.h"

#include <xxhash.h>

namespace sluice {
namespace {

void PutLittleEndian(uint64_t value, unsigned char* out) {
  for (int i = 0; i < 8; ++i) {
    out[i] = static_cast<unsigned char>(value >> (8 * i));
  }
}

}  // namespace

uint64_t GrantFor(uint64_t secret, const GradientKey& key) {
  unsigned char bytes[32];
  PutLittleEndian(key.generation.value(), bytes);
  PutLittleEndian(key.worker.value(), bytes + 8);
  PutLittleEndian(key.incarnation.value(), bytes + 16);
  PutLittleEndian(key.sequence.value(), bytes + 24);
  return XXH3_64bits_withSeed(bytes, sizeof(bytes), secret);
}

}  // namespace sluice
