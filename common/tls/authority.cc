// A certificate of a role and what RFC 5280 asks of it:
//
//   subject              CN = sluice worker
//   basic constraints    no authority (critical)
//   key usage            digital signature (critical)
//   extended key usage   TLS client; TLS server too for lead and shards
//   alternative names    URI:spiffe://sluice/linear/worker, and the hosts
//
// The authority's own certificate may sign certificates and revocation lists,
// and no other authority (path length 0). It names its job by the URI
// spiffe://sluice/linear.
//
// OpenSSL's calls below fail only for want of memory or randomness, or if we
// hand them nonsense; so they are checked, not reported. What a file or a user
// can get wrong is tested before.
#include "common/tls/authority.h"

#include <arpa/inet.h>
#include <openssl/bn.h>
#include <openssl/x509v3.h>

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/status_macros.h"

namespace sluice {
namespace {

constexpr char kAuthorityPrefix[] = "spiffe://sluice/";
constexpr int kSerialBits = 159;  // 20 bytes at most, and positive.

struct Delete {
  void operator()(GENERAL_NAMES* p) const { GENERAL_NAMES_free(p); }
  // Of any kind: a time, an integer.
  void operator()(ASN1_STRING* p) const { ASN1_STRING_free(p); }
  void operator()(BIGNUM* p) const { BN_free(p); }
  void operator()(X509_EXTENSION* p) const { X509_EXTENSION_free(p); }
  void operator()(X509_NAME* p) const { X509_NAME_free(p); }
};
template <typename T>
using Owned = std::unique_ptr<T, Delete>;

Owned<ASN1_TIME> ToAsn1(absl::Time time) {
  Owned<ASN1_TIME> made(ASN1_TIME_set(nullptr, absl::ToTimeT(time)));
  SLUICE_CHECK(made != nullptr);
  return made;
}

std::string UriOfJob(const std::string& job) {
  return absl::StrCat(kAuthorityPrefix, job);
}

// Letters, digits, '-' and '_' in parts of 1 to 63 between dots (RFC 1035;
// '_' is met in the names of containers).
bool IsHostName(const std::string& host) {
  if (host.size() > 253) return false;
  for (const absl::string_view part : absl::StrSplit(host, '.')) {
    if (part.empty() || part.size() > 63) return false;
    if (part.front() == '-' || part.back() == '-') return false;
    for (const char c : part) {
      if (!absl::ascii_isalnum(c) && c != '-' && c != '_') return false;
    }
  }
  return true;
}

void AddName(int type, ASN1_STRING* value, GENERAL_NAMES* names) {
  GENERAL_NAME* name = GENERAL_NAME_new();
  SLUICE_CHECK(name != nullptr && value != nullptr);
  GENERAL_NAME_set0_value(name, type, value);
  SLUICE_CHECK(sk_GENERAL_NAME_push(names, name) > 0);
}

void AddText(int type, const std::string& text, GENERAL_NAMES* names) {
  ASN1_IA5STRING* value = ASN1_IA5STRING_new();
  SLUICE_CHECK(value != nullptr);
  SLUICE_CHECK(
      ASN1_STRING_set(value, text.data(), static_cast<int>(text.size())) == 1);
  AddName(type, value, names);
}

absl::Status AddHost(const std::string& host, GENERAL_NAMES* names) {
  if (ASN1_OCTET_STRING* address = a2i_IPADDRESS(host.c_str())) {
    AddName(GEN_IPADD, address, names);
    return absl::OkStatus();
  }
  if (!IsHostName(host)) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", absl::CHexEscape(host),
                     "\" is neither the name of a host nor an IP address"));
  }
  AddText(GEN_DNS, host, names);
  return absl::OkStatus();
}

// Adds the extension that OpenSSL writes as `value`, a text of ours.
void AddExtension(int nid, const char* value, X509* issuer, X509* to) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, issuer, to, nullptr, nullptr, 0);
  const Owned<X509_EXTENSION> extension(
      X509V3_EXT_conf_nid(nullptr, &context, nid, value));
  SLUICE_CHECK(extension != nullptr);
  SLUICE_CHECK(X509_add_ext(to, extension.get(), -1) == 1);
}

void AddNames(GENERAL_NAMES* names, X509* to) {
  SLUICE_CHECK(X509_add1_ext_i2d(to, NID_subject_alt_name, names,
                                 /*crit=*/0, X509V3_ADD_DEFAULT) == 1);
}

void SetSerial(X509* certificate) {
  const Owned<BIGNUM> number(BN_new());
  SLUICE_CHECK(number != nullptr);
  SLUICE_CHECK(BN_rand(number.get(), kSerialBits, BN_RAND_TOP_ANY,
                       BN_RAND_BOTTOM_ANY) == 1);
  SLUICE_CHECK(BN_to_ASN1_INTEGER(number.get(), X509_get_serialNumber(
                                                    certificate)) != nullptr);
}

// A certificate with all but its extensions and its signature.
Certificate Begin(const std::string& name, const X509_NAME* issuer,
                  const Validity& validity, EVP_PKEY* key) {
  Certificate made(X509_new());
  SLUICE_CHECK(made != nullptr);
  SLUICE_CHECK(X509_set_version(made.get(), X509_VERSION_3) == 1);
  SetSerial(made.get());
  const Owned<X509_NAME> subject(X509_NAME_new());
  SLUICE_CHECK(subject != nullptr);
  SLUICE_CHECK(X509_NAME_add_entry_by_txt(
                   subject.get(), "CN", MBSTRING_UTF8,
                   reinterpret_cast<const unsigned char*>(name.data()),
                   static_cast<int>(name.size()), -1, 0) == 1);
  SLUICE_CHECK(X509_set_subject_name(made.get(), subject.get()) == 1);
  SLUICE_CHECK(
      X509_set_issuer_name(made.get(), issuer ? issuer : subject.get()) == 1);
  SLUICE_CHECK(X509_set1_notBefore(made.get(), ToAsn1(validity.begin).get()) ==
               1);
  SLUICE_CHECK(X509_set1_notAfter(made.get(), ToAsn1(validity.end).get()) == 1);
  SLUICE_CHECK(X509_set_pubkey(made.get(), key) == 1);
  return made;
}

// The job that the certificate of an authority names; empty: it is none.
std::string JobOf(const X509* certificate) {
  const std::vector<std::string> uris = UrisOf(certificate);
  if (uris.size() != 1) return "";
  absl::string_view job = uris[0];
  if (!absl::ConsumePrefix(&job, kAuthorityPrefix) || !CheckJobName(job).ok()) {
    return "";
  }
  return std::string(job);
}

}  // namespace

PrivateKey DrawKey() {
  PrivateKey key(EVP_EC_gen("P-256"));
  SLUICE_CHECK(key != nullptr);
  return key;
}

Authority::Authority(std::string job, Certificate certificate, PrivateKey key)
    : job_(std::move(job)),
      certificate_(std::move(certificate)),
      key_(std::move(key)) {}

absl::StatusOr<Authority> Authority::Create(const std::string& job,
                                            const Validity& validity) {
  SLUICE_RETURN_IF_ERROR(CheckJobName(job));
  PrivateKey key = DrawKey();
  Certificate made =
      Begin("sluice authority", /*issuer=*/nullptr, validity, key.get());
  X509* self = made.get();
  AddExtension(NID_basic_constraints, "critical,CA:TRUE,pathlen:0", self, self);
  AddExtension(NID_key_usage, "critical,keyCertSign,cRLSign", self, self);
  AddExtension(NID_subject_key_identifier, "hash", self, self);
  const Owned<GENERAL_NAMES> names(GENERAL_NAMES_new());
  AddText(GEN_URI, UriOfJob(job), names.get());
  AddNames(names.get(), self);
  SLUICE_CHECK(X509_sign(self, key.get(), EVP_sha256()) > 0);
  return Authority(job, std::move(made), std::move(key));
}

absl::StatusOr<Authority> Authority::Load(const std::string& name,
                                          const std::string& certificate,
                                          const std::string& key) {
  SLUICE_ASSIGN_OR_RETURN(std::vector<Certificate> certificates,
                          CertificatesFromPem(name, certificate));
  SLUICE_ASSIGN_OR_RETURN(PrivateKey private_key,
                          KeyFromPem(absl::StrCat("the key of ", name), key));
  X509* const self = certificates[0].get();
  if (X509_check_private_key(self, private_key.get()) != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": its key belongs to another certificate"));
  }
  const std::string job = JobOf(self);
  if (job.empty() || X509_check_ca(self) != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": is not the CA of a job"));
  }
  return Authority(job, std::move(certificates[0]), std::move(private_key));
}

absl::StatusOr<Certificate> Authority::Issue(const CertificateRequest& request,
                                             const PrivateKey& key) const {
  const absl::Time last = ExpiryOf(certificate_.get());
  if (request.validity.end > last) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the certificate would be valid until ",
        absl::FormatTime(request.validity.end, absl::UTCTimeZone()),
        ", its CA only until ", absl::FormatTime(last, absl::UTCTimeZone())));
  }
  const Owned<GENERAL_NAMES> names(GENERAL_NAMES_new());
  AddText(GEN_URI, TlsIdentity{job_, request.role}.Uri(), names.get());
  if (NamesHosts(request.role)) {
    for (const std::string& host : request.hosts) {
      SLUICE_RETURN_IF_ERROR(AddHost(host, names.get()));
    }
  }
  Certificate made = Begin(absl::StrCat("sluice ", TlsRoleName(request.role)),
                           X509_get_subject_name(certificate_.get()),
                           request.validity, key.get());
  X509* const issuer = certificate_.get();
  X509* const self = made.get();
  AddExtension(NID_basic_constraints, "critical,CA:FALSE", issuer, self);
  AddExtension(NID_key_usage, "critical,digitalSignature", issuer, self);
  AddExtension(NID_ext_key_usage,
               Listens(request.role) ? "serverAuth,clientAuth" : "clientAuth",
               issuer, self);
  AddExtension(NID_subject_key_identifier, "hash", issuer, self);
  AddExtension(NID_authority_key_identifier, "keyid:always", issuer, self);
  AddNames(names.get(), self);
  SLUICE_CHECK(X509_sign(self, key_.get(), EVP_sha256()) > 0);
  return made;
}

RevocationList Authority::EmptyList(absl::Time now) const {
  RevocationList list(X509_CRL_new());
  SLUICE_CHECK(list != nullptr);
  SLUICE_CHECK(X509_CRL_set_version(list.get(), X509_CRL_VERSION_2) == 1);
  SLUICE_CHECK(X509_CRL_set_issuer_name(
                   list.get(), X509_get_subject_name(certificate_.get())) == 1);
  SLUICE_CHECK(X509_CRL_set1_nextUpdate(
                   list.get(), X509_get0_notAfter(certificate_.get())) == 1);
  X509V3_CTX context;
  X509V3_set_ctx(&context, certificate_.get(), nullptr, nullptr, list.get(), 0);
  const Owned<X509_EXTENSION> signer(X509V3_EXT_conf_nid(
      nullptr, &context, NID_authority_key_identifier, "keyid:always"));
  SLUICE_CHECK(signer != nullptr);
  SLUICE_CHECK(X509_CRL_add_ext(list.get(), signer.get(), -1) == 1);
  Sign(list.get(), now, /*number=*/1);
  return list;
}

absl::Status Authority::Revoke(X509* certificate, absl::Time now,
                               X509_CRL* list) const {
  if (X509_CRL_verify(list, key_.get()) != 1) {
    return absl::InvalidArgumentError(
        "the revocation list is not signed by this CA");
  }
  if (X509_verify(certificate, key_.get()) != 1) {
    return absl::InvalidArgumentError(
        "the certificate is not signed by this CA");
  }
  if (IsRevoked(list, certificate)) return absl::OkStatus();
  X509_REVOKED* entry = X509_REVOKED_new();
  SLUICE_CHECK(entry != nullptr);
  SLUICE_CHECK(X509_REVOKED_set_serialNumber(
                   entry, X509_get_serialNumber(certificate)) == 1);
  SLUICE_CHECK(X509_REVOKED_set_revocationDate(entry, ToAsn1(now).get()) == 1);
  SLUICE_CHECK(X509_CRL_add0_revoked(list, entry) == 1);
  SLUICE_CHECK(X509_CRL_sort(list) == 1);
  const Owned<ASN1_INTEGER> number(static_cast<ASN1_INTEGER*>(
      X509_CRL_get_ext_d2i(list, NID_crl_number, nullptr, nullptr)));
  Sign(list, now, number ? ASN1_INTEGER_get(number.get()) + 1 : 1);
  return absl::OkStatus();
}

void Authority::Sign(X509_CRL* list, absl::Time now, long number) const {
  const Owned<ASN1_INTEGER> numbered(ASN1_INTEGER_new());
  SLUICE_CHECK(numbered != nullptr);
  SLUICE_CHECK(ASN1_INTEGER_set(numbered.get(), number) == 1);
  SLUICE_CHECK(X509_CRL_add1_ext_i2d(list, NID_crl_number, numbered.get(),
                                     /*crit=*/0, X509V3_ADD_REPLACE) == 1);
  SLUICE_CHECK(
      X509_CRL_set1_lastUpdate(list, ToAsn1(now - kClockTolerance).get()) == 1);
  SLUICE_CHECK(X509_CRL_sign(list, key_.get(), EVP_sha256()) > 0);
}

std::vector<std::string> HostsOf(const X509* certificate) {
  std::vector<std::string> hosts;
  const Owned<GENERAL_NAMES> names(static_cast<GENERAL_NAMES*>(
      X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr)));
  for (int i = 0; i < sk_GENERAL_NAME_num(names.get()); ++i) {
    const GENERAL_NAME* name = sk_GENERAL_NAME_value(names.get(), i);
    if (name->type != GEN_DNS && name->type != GEN_IPADD) continue;
    const unsigned char* data = ASN1_STRING_get0_data(name->d.ip);
    const int size = ASN1_STRING_length(name->d.ip);
    if (name->type == GEN_DNS) {
      hosts.emplace_back(reinterpret_cast<const char*>(data),
                         static_cast<size_t>(size));
      continue;
    }
    char text[INET6_ADDRSTRLEN];
    if (size != 4 && size != 16) continue;
    SLUICE_CHECK(inet_ntop(size == 4 ? AF_INET : AF_INET6, data, text,
                           sizeof(text)) != nullptr);
    hosts.emplace_back(text);
  }
  return hosts;
}

}  // namespace sluice
