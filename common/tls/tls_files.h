#ifndef SLUICE_COMMON_TLS_TLS_FILES_H_
#define SLUICE_COMMON_TLS_TLS_FILES_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/tls/identity.h"
#include "common/tls/pem.h"

namespace sluice {

// The files that a process shows its peers, and checks them with. PEM.
struct TlsFiles {
  std::string ca;           // Whose certificates it accepts: one or several.
  std::string certificate;  // Its own, then any between that and the CA's.
  std::string key;          // Its own, not encrypted.
  std::string crl;          // Revoked certificates. Empty: none are.
  // Nobody is revoked as long as there is no file `crl`; it may come later.
  bool crl_may_come = false;
};

// Who the holder of `files` is, after checking what a peer would refuse: the
// key belongs to the certificate; one of the CA's signed it; it is valid at
// `now` and not revoked; it is `role`'s, and of `job` unless that is empty.
// kInvalidArgument names the file, and what was expected and found; also where
// a file is missing or cannot be read.
absl::StatusOr<TlsIdentity> CheckOwnFiles(const TlsFiles& files,
                                          const std::string& job, TlsRole role,
                                          absl::Time now);

// Whether a peer may be talked to: OK if its certificate `pem`, which the TLS
// handshake has verified, names `job` and one of `roles`, and is not in
// `revoked` (null: nothing is). kUnauthenticated says what is wrong.
absl::Status CheckPeer(const std::string& pem, const std::string& job,
                       const std::vector<TlsRole>& roles, X509_CRL* revoked);

// The list of revoked certificates, signed by a CA of `files`; null: there is
// none, so that nobody is revoked. kInvalidArgument: it is not signed, or a
// file cannot be read.
absl::StatusOr<RevocationList> ReadRevoked(const TlsFiles& files);

}  // namespace sluice

#endif  // SLUICE_COMMON_TLS_TLS_FILES_H_
