#include "common/tls/tls_files.h"

#include <openssl/x509_vfy.h>

#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/status_macros.h"

namespace sluice {
namespace {

struct Delete {
  void operator()(X509_STORE* p) const { X509_STORE_free(p); }
  void operator()(X509_STORE_CTX* p) const { X509_STORE_CTX_free(p); }
  void operator()(STACK_OF(X509) * p) const { sk_X509_free(p); }
};

std::string Shown(absl::Time time) {
  return absl::FormatTime("%Y-%m-%d %H:%M:%S UTC", time, absl::UTCTimeZone());
}

// A missing file is as much the user's mistake as a wrong one.
absl::StatusOr<std::string> Read(const std::string& path) {
  absl::StatusOr<std::string> text = ReadSmallFile(path);
  if (text.ok()) return text;
  return absl::InvalidArgumentError(text.status().message());
}

absl::StatusOr<std::vector<Certificate>> ReadCertificates(
    const std::string& path) {
  SLUICE_ASSIGN_OR_RETURN(const std::string text, Read(path));
  return CertificatesFromPem(path, text);
}

absl::Status CheckTimes(const std::string& name, const X509* certificate,
                        absl::Time now) {
  if (now >= ExpiryOf(certificate)) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": the certificate expired at ",
                     Shown(ExpiryOf(certificate)), ", now is ", Shown(now)));
  }
  if (now < BeginOf(certificate)) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": the certificate is valid from ",
                     Shown(BeginOf(certificate)), " on, now is ", Shown(now)));
  }
  return absl::OkStatus();
}

// That a certificate of `authorities` signed `own`'s first one, through the
// others of `own`.
absl::Status CheckSigned(const TlsFiles& files,
                         const std::vector<Certificate>& own,
                         const std::vector<Certificate>& authorities,
                         absl::Time now) {
  const std::unique_ptr<X509_STORE, Delete> store(X509_STORE_new());
  const std::unique_ptr<STACK_OF(X509), Delete> between(sk_X509_new_null());
  const std::unique_ptr<X509_STORE_CTX, Delete> context(X509_STORE_CTX_new());
  SLUICE_CHECK(store && between && context);
  for (const Certificate& authority : authorities) {
    SLUICE_CHECK(X509_STORE_add_cert(store.get(), authority.get()) == 1);
  }
  for (const Certificate& certificate : own) {
    SLUICE_CHECK(sk_X509_push(between.get(), certificate.get()) > 0);
  }
  SLUICE_CHECK(X509_STORE_CTX_init(context.get(), store.get(), own[0].get(),
                                   between.get()) == 1);
  X509_VERIFY_PARAM_set_time(X509_STORE_CTX_get0_param(context.get()),
                             absl::ToTimeT(now));
  if (X509_verify_cert(context.get()) == 1) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      files.certificate, ": is not verified by ", files.ca, ": ",
      X509_verify_cert_error_string(X509_STORE_CTX_get_error(context.get()))));
}

absl::Status CheckIdentity(const std::string& name, const TlsIdentity& found,
                           const std::string& job, TlsRole role) {
  const TlsIdentity expected = {job.empty() ? found.job : job, role};
  if (found == expected) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(name, ": the certificate is for ", found.Uri(),
                   ", expected ", expected.Uri()));
}

}  // namespace

absl::StatusOr<RevocationList> ReadRevoked(const TlsFiles& files) {
  if (files.crl.empty()) return nullptr;
  const absl::StatusOr<std::string> text = ReadSmallFile(files.crl);
  // Any other error may hide a list, and is not taken for there being none.
  if (files.crl_may_come && absl::IsNotFound(text.status())) return nullptr;
  if (!text.ok()) return absl::InvalidArgumentError(text.status().message());
  SLUICE_ASSIGN_OR_RETURN(RevocationList list,
                          RevocationListFromPem(files.crl, *text));
  SLUICE_ASSIGN_OR_RETURN(const auto authorities, ReadCertificates(files.ca));
  for (const Certificate& authority : authorities) {
    if (X509_CRL_verify(list.get(), X509_get0_pubkey(authority.get())) == 1) {
      return list;
    }
  }
  return absl::InvalidArgumentError(
      absl::StrCat(files.crl, ": is not signed by a CA in ", files.ca));
}

absl::StatusOr<TlsIdentity> CheckOwnFiles(const TlsFiles& files,
                                          const std::string& job, TlsRole role,
                                          absl::Time now) {
  SLUICE_ASSIGN_OR_RETURN(const auto authorities, ReadCertificates(files.ca));
  SLUICE_ASSIGN_OR_RETURN(const auto own, ReadCertificates(files.certificate));
  SLUICE_ASSIGN_OR_RETURN(const std::string key_text, Read(files.key));
  SLUICE_ASSIGN_OR_RETURN(const PrivateKey key,
                          KeyFromPem(files.key, key_text));
  if (X509_check_private_key(own[0].get(), key.get()) != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat(files.key, ": is not the key of ", files.certificate));
  }
  SLUICE_RETURN_IF_ERROR(CheckTimes(files.certificate, own[0].get(), now));
  SLUICE_RETURN_IF_ERROR(CheckSigned(files, own, authorities, now));
  SLUICE_ASSIGN_OR_RETURN(TlsIdentity identity,
                          IdentityOf(files.certificate, own[0].get()));
  SLUICE_RETURN_IF_ERROR(CheckIdentity(files.certificate, identity, job, role));
  SLUICE_ASSIGN_OR_RETURN(const RevocationList revoked, ReadRevoked(files));
  if (revoked == nullptr || !IsRevoked(revoked.get(), own[0].get())) {
    return identity;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      files.certificate, ": the certificate is revoked by ", files.crl));
}

absl::Status CheckPeer(const std::string& pem, const std::string& job,
                       const std::vector<TlsRole>& roles, X509_CRL* revoked) {
  const auto certificates = CertificatesFromPem("the peer", pem);
  if (!certificates.ok()) {
    return absl::UnauthenticatedError(certificates.status().message());
  }
  X509* const certificate = (*certificates)[0].get();
  const absl::StatusOr<TlsIdentity> peer = IdentityOf("the peer", certificate);
  if (!peer.ok()) return absl::UnauthenticatedError(peer.status().message());
  bool fits = false;
  for (const TlsRole role : roles) fits = fits || peer->role == role;
  if (peer->job != job || !fits) {
    const auto uri = [&](std::string* out, TlsRole role) {
      absl::StrAppend(out, TlsIdentity{job, role}.Uri());
    };
    return absl::UnauthenticatedError(
        absl::StrCat("the peer's certificate is for ", peer->Uri(),
                     ", expected ", absl::StrJoin(roles, " or ", uri)));
  }
  if (revoked != nullptr && IsRevoked(revoked, certificate)) {
    return absl::UnauthenticatedError(absl::StrCat(
        "the peer's certificate, for ", peer->Uri(), ", is revoked"));
  }
  return absl::OkStatus();
}

}  // namespace sluice
