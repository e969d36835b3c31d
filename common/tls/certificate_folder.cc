// What a write that breaks off leaves behind: the authority's key is written
// first and its certificate next, so whatever a role has was signed by a key
// that is there, and RenewCertificates completes the folder.
#include "common/tls/certificate_folder.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/files/atomic_file.h"
#include "common/files/file_mode.h"
#include "common/files/file_operations.h"
#include "common/status_macros.h"
#include "common/tls/authority.h"
#include "common/tls/identity.h"
#include "common/tls/pem.h"

namespace sluice {
namespace {

constexpr char kOwnerAlone[] = "0600";
constexpr absl::Duration kLongestLifetime = absl::Hours(24 * 36500);

std::string AuthorityFolder(const std::string& folder) {
  return absl::StrCat(folder, "/ca");
}
std::string RoleFolder(const std::string& folder, TlsRole role) {
  return absl::StrCat(folder, "/", TlsRoleName(role));
}

bool Exists(const std::string& path) {
  std::error_code error;
  return std::filesystem::exists(path, error);
}

absl::Status Write(const std::string& path, const std::string& text) {
  return WriteFileAtomically(path, {text});
}

Validity ValidFor(absl::Duration lifetime, absl::Time now) {
  return {.begin = now - kClockTolerance, .end = now + lifetime};
}

// The parts of the authority's folder.
struct LoadedAuthority {
  Authority authority;
  RevocationList revoked;
};

absl::StatusOr<LoadedAuthority> LoadAuthority(const std::string& folder) {
  const std::string in = AuthorityFolder(folder);
  SLUICE_ASSIGN_OR_RETURN(const std::string certificate,
                          ReadSmallFile(absl::StrCat(in, "/ca.crt")));
  SLUICE_ASSIGN_OR_RETURN(const std::string key,
                          ReadSmallFile(absl::StrCat(in, "/ca.key")));
  SLUICE_ASSIGN_OR_RETURN(
      Authority authority,
      Authority::Load(absl::StrCat(in, "/ca.crt"), certificate, key));
  const std::string list_name = absl::StrCat(in, "/ca.crl");
  SLUICE_ASSIGN_OR_RETURN(const std::string list, ReadSmallFile(list_name));
  SLUICE_ASSIGN_OR_RETURN(RevocationList revoked,
                          RevocationListFromPem(list_name, list));
  return LoadedAuthority{std::move(authority), std::move(revoked)};
}

// What a role's folder has from before; null where it has nothing.
struct Earlier {
  Certificate certificate;
  PrivateKey key;
};

absl::StatusOr<Earlier> ReadEarlier(const std::string& in) {
  Earlier earlier;
  const std::string certificate = absl::StrCat(in, "/tls.crt");
  const std::string key = absl::StrCat(in, "/tls.key");
  if (Exists(certificate)) {
    SLUICE_ASSIGN_OR_RETURN(const std::string text, ReadSmallFile(certificate));
    SLUICE_ASSIGN_OR_RETURN(auto all, CertificatesFromPem(certificate, text));
    earlier.certificate = std::move(all[0]);
  }
  if (Exists(key)) {
    SLUICE_ASSIGN_OR_RETURN(const std::string text, ReadSmallFile(key));
    SLUICE_ASSIGN_OR_RETURN(earlier.key, KeyFromPem(key, text));
  }
  return earlier;
}

absl::Status WriteRole(const std::string& folder, const Authority& authority,
                       X509_CRL* revoked, const CertificateRequest& request,
                       const PrivateKey& key) {
  const std::string in = RoleFolder(folder, request.role);
  SLUICE_ASSIGN_OR_RETURN(const Certificate certificate,
                          authority.Issue(request, key));
  SLUICE_RETURN_IF_ERROR(MakeFolders(in));
  SLUICE_RETURN_IF_ERROR(
      Write(absl::StrCat(in, "/ca.crt"), ToPem(authority.certificate().get())));
  SLUICE_RETURN_IF_ERROR(Write(absl::StrCat(in, "/ca.crl"), ToPem(revoked)));
  SLUICE_RETURN_IF_ERROR(Write(absl::StrCat(in, "/tls.key"), ToPem(key.get())));
  return Write(absl::StrCat(in, "/tls.crt"), ToPem(certificate.get()));
}

absl::Status RenewRole(const std::string& folder, const LoadedAuthority& from,
                       CertificateRequest request) {
  SLUICE_ASSIGN_OR_RETURN(Earlier earlier,
                          ReadEarlier(RoleFolder(folder, request.role)));
  X509* const before = earlier.certificate.get();
  if (request.hosts.empty() && NamesHosts(request.role)) {
    if (before == nullptr) {
      return absl::NotFoundError(
          absl::StrCat(RoleFolder(folder, request.role),
                       "/tls.crt: is missing, and nothing else says which "
                       "hosts it is for"));
    }
    request.hosts = HostsOf(before);
  }
  const bool compromised =
      before != nullptr && IsRevoked(from.revoked.get(), before);
  if (earlier.key == nullptr || compromised) earlier.key = DrawKey();
  return WriteRole(folder, from.authority, from.revoked.get(), request,
                   earlier.key);
}

// Before anything is written: that every role's certificate can be made.
absl::Status CheckIssues(const Authority& authority,
                         const CertificateRequest& request) {
  return authority.Issue(request, DrawKey()).status();
}

}  // namespace

absl::Status MakeCertificates(const std::string& folder,
                              const NewCertificates& wanted, absl::Time now) {
  LetRead(kOwnerAlone);
  const std::string in = AuthorityFolder(folder);
  if (!wanted.replace && Exists(in + "/ca.crt")) {
    return absl::AlreadyExistsError(absl::StrCat(
        in,
        ": has the CA of an earlier call; --renew makes new certificates "
        "from it, --replace begins with a new one"));
  }
  SLUICE_ASSIGN_OR_RETURN(
      const Authority authority,
      Authority::Create(wanted.job, ValidFor(wanted.ca_lifetime, now)));
  const RevocationList revoked = authority.EmptyList(now);
  CertificateRequest request = {.hosts = wanted.hosts,
                                .validity = ValidFor(wanted.lifetime, now)};
  request.role = TlsRole::kLead;
  SLUICE_RETURN_IF_ERROR(CheckIssues(authority, request));
  SLUICE_RETURN_IF_ERROR(MakeFolders(in));
  SLUICE_RETURN_IF_ERROR(
      Write(absl::StrCat(in, "/ca.key"), ToPem(authority.key().get())));
  SLUICE_RETURN_IF_ERROR(
      Write(absl::StrCat(in, "/ca.crl"), ToPem(revoked.get())));
  for (const TlsRole role : kTlsRoles) {
    request.role = role;
    SLUICE_RETURN_IF_ERROR(
        WriteRole(folder, authority, revoked.get(), request, DrawKey()));
  }
  // Last: without it the folder is not whole, and may be made anew.
  return Write(absl::StrCat(in, "/ca.crt"),
               ToPem(authority.certificate().get()));
}

absl::Status RenewCertificates(const std::string& folder,
                               const std::vector<std::string>& hosts,
                               absl::Duration lifetime, absl::Time now) {
  LetRead(kOwnerAlone);
  SLUICE_ASSIGN_OR_RETURN(const LoadedAuthority from, LoadAuthority(folder));
  CertificateRequest request = {.hosts = hosts,
                                .validity = ValidFor(lifetime, now)};
  request.role = TlsRole::kLead;
  SLUICE_RETURN_IF_ERROR(CheckIssues(from.authority, request));
  for (const TlsRole role : kTlsRoles) {
    request.role = role;
    SLUICE_RETURN_IF_ERROR(RenewRole(folder, from, request));
  }
  return absl::OkStatus();
}

absl::Status RevokeCertificate(const std::string& folder,
                               const std::string& certificate, absl::Time now) {
  LetRead(kOwnerAlone);
  SLUICE_ASSIGN_OR_RETURN(const LoadedAuthority from, LoadAuthority(folder));
  SLUICE_ASSIGN_OR_RETURN(const std::string text, ReadSmallFile(certificate));
  SLUICE_ASSIGN_OR_RETURN(const auto all,
                          CertificatesFromPem(certificate, text));
  // Not the CA's: whoever trusts that does not look for it in its own list.
  SLUICE_RETURN_IF_ERROR(IdentityOf(certificate, all[0].get()).status());
  const absl::Status revoked =
      from.authority.Revoke(all[0].get(), now, from.revoked.get());
  if (!revoked.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat(certificate, ": ", revoked.message()));
  }
  const std::string list = ToPem(from.revoked.get());
  SLUICE_RETURN_IF_ERROR(
      Write(absl::StrCat(AuthorityFolder(folder), "/ca.crl"), list));
  for (const TlsRole role : kTlsRoles) {
    const std::string in = RoleFolder(folder, role);
    // A role's folder may have gone to where its daemons run.
    if (!Exists(in)) continue;
    SLUICE_RETURN_IF_ERROR(Write(absl::StrCat(in, "/ca.crl"), list));
  }
  return absl::OkStatus();
}

std::optional<absl::Duration> ParseLifetime(absl::string_view text) {
  if (text.empty()) return std::nullopt;
  const char unit = text.back();
  int64_t count = 0;
  text.remove_suffix(1);
  if (!absl::SimpleAtoi(text, &count) || count < 1) return std::nullopt;
  absl::Duration lifetime;
  switch (unit) {
    case 'd':
      lifetime = absl::Hours(24);
      break;
    case 'h':
      lifetime = absl::Hours(1);
      break;
    case 'm':
      lifetime = absl::Minutes(1);
      break;
    case 's':
      lifetime = absl::Seconds(1);
      break;
    default:
      return std::nullopt;
  }
  if (count > kLongestLifetime / lifetime) return std::nullopt;
  return count * lifetime;
}

}  // namespace sluice
