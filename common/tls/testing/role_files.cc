#include "common/tls/testing/role_files.h"

#include <atomic>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "gtest/gtest.h"

namespace sluice {

Authority NewAuthorityFor(const std::string& job, absl::Time now) {
  auto made = Authority::Create(
      job, {.begin = now - absl::Minutes(5), .end = now + absl::Hours(24)});
  SLUICE_CHECK(made.ok());
  return *std::move(made);
}

std::string WriteText(const std::string& text) {
  static std::atomic<int> count = 0;
  const std::string path =
      absl::StrCat(::testing::TempDir(), "/tls", ++count, ".pem");
  SLUICE_CHECK(static_cast<bool>(std::ofstream(path) << text << std::flush));
  return path;
}

TlsFiles WriteRoleFiles(const Authority& authority, TlsRole role,
                        absl::Time now, absl::Duration lifetime) {
  const PrivateKey key = DrawKey();
  const auto certificate = authority.Issue(
      {.role = role,
       .hosts = {"localhost"},
       .validity = {.begin = now - absl::Minutes(5), .end = now + lifetime}},
      key);
  SLUICE_CHECK(certificate.ok());
  return {.ca = WriteText(ToPem(authority.certificate().get())),
          .certificate = WriteText(ToPem(certificate->get())),
          .key = WriteText(ToPem(key.get())),
          .crl = WriteRevoked(authority, std::nullopt, now)};
}

std::string RevokedText(const Authority& authority,
                        const std::optional<TlsFiles>& revoked,
                        absl::Time now) {
  const RevocationList list = authority.EmptyList(now);
  if (revoked.has_value()) {
    const auto text = ReadSmallFile(revoked->certificate);
    SLUICE_CHECK(text.ok());
    const auto certificates = CertificatesFromPem(revoked->certificate, *text);
    SLUICE_CHECK(certificates.ok());
    SLUICE_CHECK(
        authority.Revoke((*certificates)[0].get(), now, list.get()).ok());
  }
  return ToPem(list.get());
}

std::string WriteRevoked(const Authority& authority,
                         const std::optional<TlsFiles>& revoked,
                         absl::Time now) {
  return WriteText(RevokedText(authority, revoked, now));
}

}  // namespace sluice
