#ifndef SLUICE_COMMON_TLS_TESTING_ROLE_FILES_H_
#define SLUICE_COMMON_TLS_TESTING_ROLE_FILES_H_

#include <optional>
#include <string>

#include "absl/time/time.h"
#include "common/tls/authority.h"
#include "common/tls/tls_files.h"

// Certificates for tests, in files of the test's temporary folder. Whatever
// goes wrong ends the test.
namespace sluice {

// An authority that is valid for a day.
Authority NewAuthorityFor(const std::string& job, absl::Time now);

// A file of its own with this text.
std::string WriteText(const std::string& text);

// A new key and a certificate for `role`, valid for `lifetime`, with an empty
// revocation list; in files of their own.
TlsFiles WriteRoleFiles(const Authority& authority, TlsRole role,
                        absl::Time now,
                        absl::Duration lifetime = absl::Hours(12));

// A revocation list with the certificate of `revoked`, if given.
std::string RevokedText(const Authority& authority,
                        const std::optional<TlsFiles>& revoked, absl::Time now);
std::string WriteRevoked(const Authority& authority,
                         const std::optional<TlsFiles>& revoked,
                         absl::Time now);

}  // namespace sluice

#endif  // SLUICE_COMMON_TLS_TESTING_ROLE_FILES_H_
