#ifndef SLUICE_COMMON_TLS_IDENTITY_H_
#define SLUICE_COMMON_TLS_IDENTITY_H_

#include <array>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace sluice {

// What the holder of a certificate is in its job. A role may do what it needs
// and no more.
enum class TlsRole {
  kLead,   // Shard 0, with the coordinator.
  kShard,  // Any other shard.
  kWorker,
  kEvaluator,
  kOperator,  // A person, or what starts the daemons: status, stop.
};
inline constexpr std::array<TlsRole, 5> kTlsRoles = {
    TlsRole::kLead, TlsRole::kShard, TlsRole::kWorker, TlsRole::kEvaluator,
    TlsRole::kOperator};

// "lead", "shard", "worker", "evaluator", "operator".
absl::string_view TlsRoleName(TlsRole role);

// Whether others connect to this role: to the lead, to the shards, and to a
// worker the members of it that are behind.
bool Listens(TlsRole role);
// Whether its certificate names the hosts where it listens, for other clients
// than Sluice's, which look for the role: of the lead and the shards.
bool NamesHosts(TlsRole role);

// OK for a name that a job may have (proto/job.proto). kInvalidArgument says
// what is wrong; the message shows control characters escaped.
absl::Status CheckJobName(absl::string_view job);

// Who holds a certificate. It is one URI in the certificate's subject
// alternative names, in the form of a SPIFFE ID:
//
//   spiffe://sluice/JOB/ROLE         spiffe://sluice/linear/worker
struct TlsIdentity {
  std::string job;
  TlsRole role = TlsRole::kWorker;

  std::string Uri() const;
  friend bool operator==(const TlsIdentity&, const TlsIdentity&) = default;
};

// kInvalidArgument: `uri` is not of this form.
absl::StatusOr<TlsIdentity> ParseTlsUri(absl::string_view uri);

}  // namespace sluice

#endif  // SLUICE_COMMON_TLS_IDENTITY_H_
