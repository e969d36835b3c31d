#ifndef SLUICE_COMMON_TLS_CERTIFICATE_FOLDER_H_
#define SLUICE_COMMON_TLS_CERTIFICATE_FOLDER_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

// The certificates of one job as files, with the names that Kubernetes gives
// the parts of a TLS secret:
//
//   DIR/ca/ca.key                    signs; no daemon needs it
//   DIR/ca/ca.crt, ca.crl            the authority and what it has revoked
//   DIR/ROLE/ca.crt, ca.crl          the same, for the daemons of the role
//   DIR/ROLE/tls.crt, tls.key        the role's certificate and its key
//
// ROLE is lead, shard, worker, evaluator or operator. Every file and folder is
// made for its owner alone (0600, 0700), and each file is replaced as a whole.
// Errors of all functions: kInvalidArgument and kNotFound as in
// common/tls/pem.h and authority.h, with the file's name;
// kUnavailable and kResourceExhausted from writing.
//
// From their first call the process creates files for its owner alone. Call
// one at a time.
namespace sluice {

struct NewCertificates {
  std::string job;
  std::vector<std::string> hosts;  // Of the lead and the shards.
  // Counted from now.
  absl::Duration lifetime;
  absl::Duration ca_lifetime;
  // Write over the files of another authority. The runs that use them then
  // need the new ones.
  bool replace = false;
};

// Makes an authority and a certificate for each role. kAlreadyExists: `folder`
// has an authority, and `replace` is false. `folder` may exist.
absl::Status MakeCertificates(const std::string& folder,
                              const NewCertificates& wanted, absl::Time now);

// Makes new certificates from the authority in `folder`, for the keys that
// there are, so that a daemon which reads its files in between still finds a
// certificate and a key that belong together. A key that is missing or whose
// certificate has been revoked is made anew. `hosts`: as they were if empty.
absl::Status RenewCertificates(const std::string& folder,
                               const std::vector<std::string>& hosts,
                               absl::Duration lifetime, absl::Time now);

// Adds the first certificate of the file `certificate`, which the authority in
// `folder` has issued, to the revocation lists in `folder`.
absl::Status RevokeCertificate(const std::string& folder,
                               const std::string& certificate, absl::Time now);

// The duration of "90d", "12h", "30m" or "45s": a whole number of 1 or more,
// and at most 36500 days. Nullopt: anything else.
std::optional<absl::Duration> ParseLifetime(absl::string_view text);

}  // namespace sluice

#endif  // SLUICE_COMMON_TLS_CERTIFICATE_FOLDER_H_
