#ifndef SLUICE_COMMON_TLS_TLS_FLAGS_H_
#define SLUICE_COMMON_TLS_TLS_FLAGS_H_

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "common/tls/tls_files.h"

namespace CLI {
class App;
}  // namespace CLI

namespace sluice {

// The flags that say how a daemon or the tool talks to others of its job; the
// same for all of them.
struct TlsFlags {
  std::string folder;     // With ca.crt, tls.crt, tls.key and perhaps ca.crl.
  TlsFiles files;         // Each instead of the folder's; empty: the folder's.
  bool insecure = false;  // Plain text is allowed off the loopback, too.
};

// Adds --tls, --tls-ca, --tls-cert, --tls-key, --crl and --insecure to `app`;
// `flags` outlives it.
void AddTlsFlags(CLI::App* app, TlsFlags* flags);

// The files that the flags name; nullopt: plain text. kInvalidArgument: some
// are named and others are not.
absl::StatusOr<std::optional<TlsFiles>> FilesOf(const TlsFlags& flags);

}  // namespace sluice

#endif  // SLUICE_COMMON_TLS_TLS_FLAGS_H_
