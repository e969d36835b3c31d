#include "common/sha256.h"

#include <openssl/evp.h>

#include "absl/strings/escaping.h"
#include "common/status_macros.h"

namespace sluice {

struct Sha256::State {
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  ~State() { EVP_MD_CTX_free(context); }
};

Sha256::Sha256() : state_(std::make_unique<State>()) {
  SLUICE_CHECK(state_->context != nullptr);
  SLUICE_CHECK(EVP_DigestInit_ex(state_->context, EVP_sha256(), nullptr) == 1);
}

Sha256::~Sha256() = default;

void Sha256::Update(absl::Span<const uint8_t> bytes) {
  SLUICE_CHECK(EVP_DigestUpdate(state_->context, bytes.data(), bytes.size()) ==
               1);
}

void Sha256::Update(absl::string_view text) {
  Update(absl::MakeConstSpan(reinterpret_cast<const uint8_t*>(text.data()),
                             text.size()));
}

std::string Sha256::Hex() {
  unsigned char digest[32];
  SLUICE_CHECK(EVP_DigestFinal_ex(state_->context, digest, nullptr) == 1);
  return absl::BytesToHexString(
      absl::string_view(reinterpret_cast<const char*>(digest), sizeof(digest)));
}

std::string Sha256Hex(absl::Span<const uint8_t> bytes) {
  Sha256 sha;
  sha.Update(bytes);
  return sha.Hex();
}

std::string Sha256Hex(absl::string_view text) {
  Sha256 sha;
  sha.Update(text);
  return sha.Hex();
}

}  // namespace sluice
