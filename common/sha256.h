#ifndef SLUICE_COMMON_SHA256_H_
#define SLUICE_COMMON_SHA256_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace sluice {

// SHA-256 (FIPS 180-4) of bytes that arrive piece by piece.
//
// Not thread-safe: call from one thread.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  void Update(absl::Span<const uint8_t> bytes);
  void Update(absl::string_view text);

  // The digest of everything so far, 64 lower-case hexadecimal digits.
  // REQUIRES: called once, last.
  std::string Hex();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// The digest of `bytes`, 64 lower-case hexadecimal digits.
std::string Sha256Hex(absl::Span<const uint8_t> bytes);
std::string Sha256Hex(absl::string_view text);

}  // namespace sluice

#endif  // SLUICE_COMMON_SHA256_H_
