#include "common/tls/pem.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <cstdint>
#include <ctime>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "common/files/input_file.h"
#include "common/status_macros.h"

namespace sluice {
namespace {

// A bundle of a hundred certificates has a fifth of it.
constexpr int64_t kMostBytes = 1 << 20;

struct BioDelete {
  void operator()(BIO* p) const { BIO_free(p); }
};
using Bio = std::unique_ptr<BIO, BioDelete>;

Bio Reader(absl::string_view text) {
  return Bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

// What `write` wrote.
template <typename Write>
std::string Written(Write write) {
  const Bio bio(BIO_new(BIO_s_mem()));
  SLUICE_CHECK(bio != nullptr && write(bio.get()) == 1);
  char* data = nullptr;
  const auto size = BIO_get_mem_data(bio.get(), &data);
  return std::string(data, static_cast<size_t>(size));
}

// OpenSSL would ask the terminal for the password of an encrypted key.
int NoPassword(char*, int, int, void*) { return -1; }

absl::Status Unreadable(const std::string& name, absl::string_view what) {
  // The first error is the cause; the rest of the queue would be taken for a
  // later call's.
  const absl::Cleanup clear = [] { ERR_clear_error(); };
  const unsigned long error = ERR_peek_error();
  const char* reason = error == 0 ? nullptr : ERR_reason_error_string(error);
  return absl::InvalidArgumentError(
      absl::StrCat(name, ": has no ", what, " in PEM that can be read",
                   reason == nullptr ? "" : absl::StrCat(": ", reason)));
}

absl::Time ToTime(const ASN1_TIME* time, absl::Time unreadable) {
  tm parts = {};
  if (ASN1_TIME_to_tm(time, &parts) != 1) return unreadable;
  return absl::FromTM(parts, absl::UTCTimeZone());
}

}  // namespace

absl::StatusOr<std::string> ReadSmallFile(const std::string& path) {
  SLUICE_ASSIGN_OR_RETURN(const InputFile file, InputFile::Open(path));
  if (file.size() > kMostBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        path, ": has ", file.size(), " bytes, at most ", kMostBytes));
  }
  std::string text(static_cast<size_t>(file.size()), '\0');
  SLUICE_RETURN_IF_ERROR(file.ReadAt(0, file.size(), text.data()));
  return text;
}

absl::StatusOr<std::vector<Certificate>> CertificatesFromPem(
    const std::string& name, absl::string_view pem) {
  const Bio bio = Reader(pem);
  std::vector<Certificate> certificates;
  while (X509* next =
             PEM_read_bio_X509(bio.get(), nullptr, NoPassword, nullptr)) {
    certificates.emplace_back(next);
  }
  // The end of the text is the only error after the last one.
  const bool at_end =
      ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
  if (certificates.empty() || !at_end) return Unreadable(name, "certificate");
  ERR_clear_error();
  return certificates;
}

absl::StatusOr<PrivateKey> KeyFromPem(const std::string& name,
                                      absl::string_view pem) {
  PrivateKey key(
      PEM_read_bio_PrivateKey(Reader(pem).get(), nullptr, NoPassword, nullptr));
  if (key == nullptr) return Unreadable(name, "private key");
  return key;
}

absl::StatusOr<RevocationList> RevocationListFromPem(const std::string& name,
                                                     absl::string_view pem) {
  RevocationList list(
      PEM_read_bio_X509_CRL(Reader(pem).get(), nullptr, NoPassword, nullptr));
  if (list == nullptr) return Unreadable(name, "revocation list");
  return list;
}

std::string ToPem(X509* certificate) {
  return Written(
      [&](BIO* bio) { return PEM_write_bio_X509(bio, certificate); });
}

std::string ToPem(EVP_PKEY* key) {
  return Written([&](BIO* bio) {
    return PEM_write_bio_PKCS8PrivateKey(bio, key, nullptr, nullptr, 0, nullptr,
                                         nullptr);
  });
}

std::string ToPem(X509_CRL* list) {
  return Written([&](BIO* bio) { return PEM_write_bio_X509_CRL(bio, list); });
}

absl::Time BeginOf(const X509* certificate) {
  return ToTime(X509_get0_notBefore(certificate), absl::InfiniteFuture());
}

absl::Time ExpiryOf(const X509* certificate) {
  return ToTime(X509_get0_notAfter(certificate), absl::InfinitePast());
}

std::vector<std::string> UrisOf(const X509* certificate) {
  std::vector<std::string> uris;
  auto* names = static_cast<GENERAL_NAMES*>(
      X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr));
  for (int i = 0; i < sk_GENERAL_NAME_num(names); ++i) {
    const GENERAL_NAME* name = sk_GENERAL_NAME_value(names, i);
    if (name->type != GEN_URI) continue;
    const ASN1_STRING* uri = name->d.uniformResourceIdentifier;
    uris.emplace_back(reinterpret_cast<const char*>(ASN1_STRING_get0_data(uri)),
                      static_cast<size_t>(ASN1_STRING_length(uri)));
  }
  GENERAL_NAMES_free(names);
  return uris;
}

absl::StatusOr<TlsIdentity> IdentityOf(const std::string& name,
                                       const X509* certificate) {
  const std::vector<std::string> uris = UrisOf(certificate);
  if (uris.size() != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": its certificate has ", uris.size(),
                     " URIs among its subject's alternative names, expected "
                     "one: spiffe://sluice/JOB/ROLE"));
  }
  absl::StatusOr<TlsIdentity> identity = ParseTlsUri(uris[0]);
  if (identity.ok()) return identity;
  return absl::InvalidArgumentError(
      absl::StrCat(name, ": ", identity.status().message()));
}

std::string KeyDigest(const X509* certificate) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int bytes = 0;
  SLUICE_CHECK(X509_pubkey_digest(certificate, EVP_sha256(), digest, &bytes) ==
               1);
  return std::string(reinterpret_cast<const char*>(digest), bytes);
}

bool IsRevoked(X509_CRL* list, X509* certificate) {
  X509_REVOKED* entry = nullptr;
  // 2: the newest entry takes a revocation back (removeFromCRL).
  return X509_CRL_get0_by_cert(list, &entry, certificate) == 1;
}

}  // namespace sluice
