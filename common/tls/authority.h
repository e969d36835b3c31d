#ifndef SLUICE_COMMON_TLS_AUTHORITY_H_
#define SLUICE_COMMON_TLS_AUTHORITY_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/tls/identity.h"
#include "common/tls/pem.h"

namespace sluice {

// Certificates and revocation lists begin this long before they are made, since
// the clock of another host may be behind.
inline constexpr absl::Duration kClockTolerance = absl::Minutes(5);

// From when to when a certificate is valid.
struct Validity {
  absl::Time begin;
  absl::Time end;
};

// What a certificate of a role is made from.
struct CertificateRequest {
  TlsRole role = TlsRole::kWorker;
  // Names and IP addresses of the hosts of a role that listens. Sluice's own
  // clients check the role; other TLS clients check these.
  std::vector<std::string> hosts;
  Validity validity;
};

// The certificate authority of one job: a self-signed certificate, and the key
// that signs certificates of roles and the list of those revoked. All keys are
// ECDSA on P-256, all signatures with SHA-256, all serial numbers 159 random
// bits (RFC 5280). It touches no file.
//
// Not thread-safe: call from one thread.
class Authority {
 public:
  // A new one. kInvalidArgument: a job cannot have this name.
  static absl::StatusOr<Authority> Create(const std::string& job,
                                          const Validity& validity);
  // From PEM. kInvalidArgument: not a certificate and key that belong
  // together, or not made by Create. `name` is the certificate's file, for
  // messages.
  static absl::StatusOr<Authority> Load(const std::string& name,
                                        const std::string& certificate,
                                        const std::string& key);

  const std::string& job() const { return job_; }
  const Certificate& certificate() const { return certificate_; }
  const PrivateKey& key() const { return key_; }

  // A certificate for the holder of `key`. kInvalidArgument: a host is neither
  // a name nor an IP address; or the certificate would outlive the authority's.
  absl::StatusOr<Certificate> Issue(const CertificateRequest& request,
                                    const PrivateKey& key) const;

  // A list without entries, made at `now`. It does not expire before the
  // authority does: no service publishes a new one in time, and a run must not
  // stop because of that.
  RevocationList EmptyList(absl::Time now) const;
  // Adds `certificate` to `list`, unless it is in it. kInvalidArgument:
  // another authority has signed the list or the certificate.
  absl::Status Revoke(X509* certificate, absl::Time now, X509_CRL* list) const;

 private:
  Authority(std::string job, Certificate certificate, PrivateKey key);
  void Sign(X509_CRL* list, absl::Time now, long number) const;

  std::string job_;
  Certificate certificate_;
  PrivateKey key_;
};

// A new key on P-256.
PrivateKey DrawKey();

// The hosts of a certificate that Issue has made, as it was given them.
std::vector<std::string> HostsOf(const X509* certificate);

}  // namespace sluice

#endif  // SLUICE_COMMON_TLS_AUTHORITY_H_
