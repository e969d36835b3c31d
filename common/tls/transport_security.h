#ifndef SLUICE_COMMON_TLS_TRANSPORT_SECURITY_H_
#define SLUICE_COMMON_TLS_TRANSPORT_SECURITY_H_

#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_context.h>

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/clock.h"
#include "common/telemetry/counter_table.h"
#include "common/tls/identity.h"
#include "common/tls/rpc_access.h"
#include "common/tls/tls_flags.h"

namespace sluice {

// How a process talks to the others of its job: in plain text, or with TLS 1.2
// or newer, where both ends show a certificate.
//
// A peer's certificate must be signed by the CA, be valid and not revoked, and
// name this process's job. A client accepts only a server of the role that it
// wants to reach, and a server any role; the name of the host does not matter,
// so addresses may change. The files are read again when they change:
// certificates and keys within a second, for connections made from then on.
//
// A server logs whom it refuses: event=handshake_failed for what fails in the
// handshake, event=peer_refused for what a certificate names, and
// event=call_refused for a call that is not for the peer's role.
//
// Copies share one watch over the files. Immutable, therefore thread-safe.
class TransportSecurity {
 public:
  // Plain text.
  TransportSecurity();
  // As the flags say, for a process that is `role` in `job` (empty: in the job
  // that its certificate names). kInvalidArgument: FilesOf or CheckOwnFiles; or
  // --insecure beside TLS.
  // `clock` outlives it.
  static absl::StatusOr<TransportSecurity> Open(const TlsFlags& flags,
                                                const std::string& job,
                                                TlsRole role,
                                                Clock* clock = Clock::Real());

  bool tls() const { return files_ != nullptr; }

  // Whether this process may listen on, or connect to, `address` ("host:port"):
  // with TLS or --insecure on any, else on the loopback alone. `what` is the
  // flag or field that gave the address. kInvalidArgument: it may not, or it is
  // not an address.
  absl::Status Allow(const std::string& what, const std::string& address) const;
  // Whether it talks in plain text off the loopback because --insecure is set.
  bool insecure() const { return insecure_; }

  std::shared_ptr<grpc::ServerCredentials> ForServer() const;
  // Who makes a call; every call of a server asks before it reads anything. In
  // plain text anybody may make any. Else what is not for the peer's role is
  // kPermissionDenied, and a certificate that has been revoked since the
  // handshake kUnauthenticated; neither tells anything of the job.
  absl::StatusOr<Caller> Admit(const grpc::ServerContextBase& call,
                               Rpc rpc) const;
  // The same of a Join that says it is `role`, on a Session of `caller`.
  absl::Status AdmitJoin(const Caller& caller, TlsRole role) const;

  // The same of a call that its server refuses for a reason of its own, which
  // is `why`: it is logged and counted like the others.
  absl::Status RefuseCall(const absl::Status& why) const;

  // Puts whom this process has refused (kAccessCounters), and so many
  // `connections`, of which its listener knows.
  void CountRefused(int64_t connections, CounterMap* counters) const;
  // With TLS: puts kCertificateSecondsLeft, until this process's certificate
  // expires, as its file is now. Below a fifth of the certificate's lifetime
  // event=certificate_expires says so, once an hour.
  void CountCertificate(CounterMap* counters) const;

  // For channels to the coordinator, and to any shard (the lead is one, too).
  std::shared_ptr<grpc::ChannelCredentials> ToLead() const;
  std::shared_ptr<grpc::ChannelCredentials> ToShards() const;
  // To another member of the same worker.
  std::shared_ptr<grpc::ChannelCredentials> ToWorkers() const;

 private:
  class Refusals;
  class WatchedFiles;
  class PeerVerifier;

  std::shared_ptr<grpc::ChannelCredentials> To(
      std::vector<TlsRole> roles) const;

  std::shared_ptr<Refusals> refusals_;
  std::string job_;
  std::shared_ptr<WatchedFiles> files_;  // Null: plain text.
  bool insecure_ = false;
};

}  // namespace sluice

#endif  // SLUICE_COMMON_TLS_TRANSPORT_SECURITY_H_
