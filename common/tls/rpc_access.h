#ifndef SLUICE_COMMON_TLS_RPC_ACCESS_H_
#define SLUICE_COMMON_TLS_RPC_ACCESS_H_

#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "common/tls/identity.h"

namespace sluice {

// The calls that a lead or a shard answers, and a worker of several members.
enum class Rpc {
  kSession,
  kGetStatus,
  kStop,
  kRequestCheckpoint,
  kReportDeath,
  kPull,
  kPush,
  kLink,
  kShare
};

// As the .proto files name it: "Session".
absl::string_view RpcName(Rpc rpc);

// Whether a process of this role may make the call. docs/security.md shows it
// as a table. A Session is for its own role only, which its Join names.
bool May(TlsRole role, Rpc rpc);

// Who makes a call.
struct Caller {
  std::optional<TlsRole> role;  // nullopt: plain text; it can be anybody.
  // SHA-256 of its certificate's public key: 32 bytes. Empty: plain text.
  std::string key;
};

}  // namespace sluice

#endif  // SLUICE_COMMON_TLS_RPC_ACCESS_H_
