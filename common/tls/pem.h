#ifndef SLUICE_COMMON_TLS_PEM_H_
#define SLUICE_COMMON_TLS_PEM_H_

#include <openssl/evp.h>
#include <openssl/x509.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/tls/identity.h"

// Certificates, keys and revocation lists: read from PEM, written as PEM, and
// asked for what Sluice needs of them. `name` is a file's, for messages.
namespace sluice {

// Frees what OpenSSL has made.
struct OpensslDelete {
  void operator()(X509* p) const { X509_free(p); }
  void operator()(X509_CRL* p) const { X509_CRL_free(p); }
  void operator()(EVP_PKEY* p) const { EVP_PKEY_free(p); }
};
using Certificate = std::unique_ptr<X509, OpensslDelete>;
using RevocationList = std::unique_ptr<X509_CRL, OpensslDelete>;
using PrivateKey = std::unique_ptr<EVP_PKEY, OpensslDelete>;

// The whole file. kNotFound: there is none. kInvalidArgument: it is not a
// regular file, or has more than 1 MiB. kUnavailable: it cannot be read.
absl::StatusOr<std::string> ReadSmallFile(const std::string& path);

// All certificates of `pem`, in its order; at least one. kInvalidArgument:
// there is none, or one that cannot be read.
absl::StatusOr<std::vector<Certificate>> CertificatesFromPem(
    const std::string& name, absl::string_view pem);
// kInvalidArgument: there is none, or it is encrypted.
absl::StatusOr<PrivateKey> KeyFromPem(const std::string& name,
                                      absl::string_view pem);
// kInvalidArgument: there is none.
absl::StatusOr<RevocationList> RevocationListFromPem(const std::string& name,
                                                     absl::string_view pem);

std::string ToPem(X509* certificate);
std::string ToPem(EVP_PKEY* key);  // Not encrypted.
std::string ToPem(X509_CRL* list);

// When the certificate begins and ceases to be valid, to the second. One whose
// times cannot be read is never valid.
absl::Time BeginOf(const X509* certificate);
absl::Time ExpiryOf(const X509* certificate);

// The URIs among the subject's alternative names.
std::vector<std::string> UrisOf(const X509* certificate);
// The identity of a certificate with exactly one URI. kInvalidArgument: it has
// none or several, or it is not Sluice's.
absl::StatusOr<TlsIdentity> IdentityOf(const std::string& name,
                                       const X509* certificate);

// SHA-256 of the certificate's public key: 32 bytes. A certificate that was
// renewed for the same key has the same.
std::string KeyDigest(const X509* certificate);

// Whether `list`, whose signature is the caller's to check, has `certificate`.
bool IsRevoked(X509_CRL* list, X509* certificate);

}  // namespace sluice

#endif  // SLUICE_COMMON_TLS_PEM_H_
