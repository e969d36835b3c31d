#include "common/tls/certificate_folder.h"

#include <openssl/x509_vfy.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>

#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/tls/authority.h"
#include "common/tls/identity.h"
#include "common/tls/pem.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr absl::Duration kDay = absl::Hours(24);
const absl::Time kNow = absl::FromUnixSeconds(1'800'000'000);

std::string NewFolder() {
  static int count = 0;
  return absl::StrCat(::testing::TempDir(), "/certs", ++count);
}

NewCertificates Wanted() {
  return {.job = "linear",
          .hosts = {"lead.example", "10.0.0.7", "fd00::7"},
          .lifetime = 90 * kDay,
          .ca_lifetime = 3650 * kDay};
}

std::string Made(const NewCertificates& wanted = Wanted()) {
  const std::string folder = NewFolder();
  const absl::Status made = MakeCertificates(folder, wanted, kNow);
  EXPECT_TRUE(made.ok()) << made;
  return folder;
}

std::string Read(const std::string& path) {
  const auto text = ReadSmallFile(path);
  EXPECT_TRUE(text.ok()) << text.status();
  return text.ok() ? *text : "";
}

Certificate ReadCertificate(const std::string& path) {
  auto all = CertificatesFromPem(path, Read(path));
  EXPECT_TRUE(all.ok() && all->size() == 1) << all.status();
  return std::move((*all)[0]);
}

PrivateKey ReadKey(const std::string& path) {
  auto key = KeyFromPem(path, Read(path));
  EXPECT_TRUE(key.ok()) << key.status();
  return *std::move(key);
}

std::string In(const std::string& folder, TlsRole role,
               const std::string& file) {
  return absl::StrCat(folder, "/", TlsRoleName(role), "/", file);
}

// What OpenSSL says of the role's certificate at `at`, as a TLS server or
// client would: X509_V_OK or what is wrong. With the role's own ca.crt, ca.crl.
int Verified(const std::string& folder, TlsRole role, int purpose,
             absl::Time at = kNow) {
  const Certificate ca = ReadCertificate(In(folder, role, "ca.crt"));
  const Certificate leaf = ReadCertificate(In(folder, role, "tls.crt"));
  const std::string list_name = In(folder, role, "ca.crl");
  auto list = RevocationListFromPem(list_name, Read(list_name));
  EXPECT_TRUE(list.ok()) << list.status();
  X509_STORE* store = X509_STORE_new();
  X509_STORE_add_cert(store, ca.get());
  X509_STORE_add_crl(store, list->get());
  X509_STORE_CTX* context = X509_STORE_CTX_new();
  X509_STORE_CTX_init(context, store, leaf.get(), nullptr);
  X509_VERIFY_PARAM* rules = X509_STORE_CTX_get0_param(context);
  X509_VERIFY_PARAM_set_time(rules, absl::ToTimeT(at));
  X509_VERIFY_PARAM_set_purpose(rules, purpose);
  X509_VERIFY_PARAM_set_flags(rules,
                              X509_V_FLAG_CRL_CHECK | X509_V_FLAG_X509_STRICT);
  X509_verify_cert(context);
  const int error = X509_STORE_CTX_get_error(context);
  X509_STORE_CTX_free(context);
  X509_STORE_free(store);
  return error;
}

mode_t ModeOf(const std::string& path) {
  struct stat found = {};
  EXPECT_EQ(stat(path.c_str(), &found), 0) << path;
  return found.st_mode & 07777;
}

TEST(CertificateFolderTest, EveryRoleHasACertificateThatOpensslVerifies) {
  const std::string folder = Made();
  for (const TlsRole role : kTlsRoles) {
    SCOPED_TRACE(TlsRoleName(role));
    EXPECT_EQ(Verified(folder, role, X509_PURPOSE_SSL_CLIENT), X509_V_OK);
    EXPECT_EQ(Verified(folder, role, X509_PURPOSE_SSL_SERVER),
              role == TlsRole::kEvaluator || role == TlsRole::kOperator
                  ? X509_V_ERR_INVALID_PURPOSE
                  : X509_V_OK);
    const Certificate leaf = ReadCertificate(In(folder, role, "tls.crt"));
    const PrivateKey key = ReadKey(In(folder, role, "tls.key"));
    EXPECT_EQ(X509_check_private_key(leaf.get(), key.get()), 1);
    EXPECT_EQ(EVP_PKEY_get_bits(key.get()), 256);
  }
}

TEST(CertificateFolderTest, ItSaysWhoHoldsItAndWhichHosts) {
  const std::string folder = Made();
  for (const TlsRole role : kTlsRoles) {
    SCOPED_TRACE(TlsRoleName(role));
    const Certificate leaf = ReadCertificate(In(folder, role, "tls.crt"));
    const auto identity = IdentityOf("tls.crt", leaf.get());
    ASSERT_TRUE(identity.ok()) << identity.status();
    EXPECT_EQ(*identity, (TlsIdentity{"linear", role}));
    if (NamesHosts(role)) {
      EXPECT_THAT(HostsOf(leaf.get()),
                  ElementsAre("lead.example", "10.0.0.7", "fd00::7"));
    } else {
      EXPECT_THAT(HostsOf(leaf.get()), IsEmpty());
    }
  }
}

TEST(CertificateFolderTest, OnlyTheAuthoritySigns) {
  const std::string folder = Made();
  const Certificate ca = ReadCertificate(absl::StrCat(folder, "/ca/ca.crt"));
  EXPECT_EQ(X509_get_key_usage(ca.get()), KU_KEY_CERT_SIGN | KU_CRL_SIGN);
  EXPECT_EQ(X509_check_ca(ca.get()), 1);
  EXPECT_EQ(X509_get_pathlen(ca.get()), 0);
  for (const TlsRole role : kTlsRoles) {
    const Certificate leaf = ReadCertificate(In(folder, role, "tls.crt"));
    EXPECT_EQ(X509_get_key_usage(leaf.get()), KU_DIGITAL_SIGNATURE);
    EXPECT_EQ(X509_check_ca(leaf.get()), 0);
    EXPECT_FALSE(std::filesystem::exists(In(folder, role, "ca.key")));
  }
}

TEST(CertificateFolderTest, ItIsValidFromFiveMinutesAgoForItsLifetime) {
  const std::string folder = Made();
  const TlsRole role = TlsRole::kWorker;
  const int purpose = X509_PURPOSE_SSL_CLIENT;
  EXPECT_EQ(Verified(folder, role, purpose, kNow - absl::Minutes(4)),
            X509_V_OK);
  EXPECT_EQ(BeginOf(ReadCertificate(In(folder, role, "tls.crt")).get()),
            kNow - absl::Minutes(5));
  EXPECT_EQ(Verified(folder, role, purpose, kNow + 89 * kDay), X509_V_OK);
  EXPECT_EQ(Verified(folder, role, purpose, kNow + 91 * kDay),
            X509_V_ERR_CERT_HAS_EXPIRED);
}

TEST(CertificateFolderTest, FilesAndFoldersAreTheirOwnersAlone) {
  const std::string folder = Made();
  int files = 0;
  EXPECT_EQ(ModeOf(folder), 0700);
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(folder)) {
    const bool is_folder = entry.is_directory();
    files += is_folder ? 0 : 1;
    EXPECT_EQ(ModeOf(entry.path()), is_folder ? 0700 : 0600) << entry.path();
  }
  EXPECT_EQ(files, 3 + 5 * 4);
}

TEST(CertificateFolderTest, WhatIsThereIsNotOverwrittenUnlessToldSo) {
  const std::string folder = Made();
  const std::string key = Read(absl::StrCat(folder, "/ca/ca.key"));
  NewCertificates wanted = Wanted();
  const absl::Status again = MakeCertificates(folder, wanted, kNow);
  EXPECT_TRUE(absl::IsAlreadyExists(again)) << again;
  EXPECT_EQ(Read(absl::StrCat(folder, "/ca/ca.key")), key);
  wanted.replace = true;
  ASSERT_TRUE(MakeCertificates(folder, wanted, kNow).ok());
  EXPECT_NE(Read(absl::StrCat(folder, "/ca/ca.key")), key);
  EXPECT_EQ(Verified(folder, TlsRole::kLead, X509_PURPOSE_SSL_SERVER),
            X509_V_OK);
}

TEST(CertificateFolderTest, WhatBrokeOffIsMadeAnew) {
  const std::string folder = Made();
  std::filesystem::remove(absl::StrCat(folder, "/ca/ca.crt"));
  std::filesystem::remove_all(
      absl::StrCat(folder, "/", TlsRoleName(TlsRole::kWorker)));
  const absl::Status again = MakeCertificates(folder, Wanted(), kNow);
  ASSERT_TRUE(again.ok()) << again;
  for (const TlsRole role : {TlsRole::kLead, TlsRole::kWorker}) {
    EXPECT_EQ(Verified(folder, role, X509_PURPOSE_SSL_SERVER), X509_V_OK);
  }
}

TEST(CertificateFolderTest, RenewedCertificatesKeepKeysHostsAndAuthority) {
  const std::string folder = Made();
  const auto at = [&](const char* file) {
    return Read(In(folder, TlsRole::kLead, file));
  };
  const std::string before = at("tls.crt"), key = at("tls.key"),
                    ca = at("ca.crt");
  const absl::Time later = kNow + 80 * kDay;
  ASSERT_TRUE(RenewCertificates(folder, {}, 90 * kDay, later).ok());
  EXPECT_NE(at("tls.crt"), before);
  EXPECT_EQ(at("tls.key"), key);
  EXPECT_EQ(at("ca.crt"), ca);
  EXPECT_EQ(Verified(folder, TlsRole::kLead, X509_PURPOSE_SSL_SERVER,
                     later + 89 * kDay),
            X509_V_OK);
  const std::string path = In(folder, TlsRole::kLead, "tls.crt");
  EXPECT_THAT(HostsOf(ReadCertificate(path).get()),
              ElementsAre("lead.example", "10.0.0.7", "fd00::7"));
  ASSERT_TRUE(RenewCertificates(folder, {"b"}, 90 * kDay, later).ok());
  EXPECT_THAT(HostsOf(ReadCertificate(path).get()), ElementsAre("b"));
}

TEST(CertificateFolderTest, ARevokedCertificateIsRefusedAndItsKeyReplaced) {
  const std::string folder = Made();
  const TlsRole role = TlsRole::kWorker;
  const int purpose = X509_PURPOSE_SSL_CLIENT;
  const std::string path = In(folder, role, "tls.crt");
  const std::string key = Read(In(folder, role, "tls.key"));
  for (int i = 0; i < 2; ++i) {  // A second time changes nothing.
    const absl::Status revoked = RevokeCertificate(folder, path, kNow);
    ASSERT_TRUE(revoked.ok()) << revoked;
    EXPECT_EQ(Verified(folder, role, purpose), X509_V_ERR_CERT_REVOKED);
  }
  EXPECT_EQ(Verified(folder, TlsRole::kLead, purpose), X509_V_OK);
  EXPECT_EQ(Read(In(folder, TlsRole::kLead, "ca.crl")),
            Read(absl::StrCat(folder, "/ca/ca.crl")));
  ASSERT_TRUE(RenewCertificates(folder, {}, 90 * kDay, kNow).ok());
  EXPECT_EQ(Verified(folder, role, purpose), X509_V_OK);
  EXPECT_NE(Read(In(folder, role, "tls.key")), key);
}

TEST(CertificateFolderTest, AnotherAuthoritysCertificateIsNotRevoked) {
  const std::string folder = Made(), other = Made();
  const absl::Status refused =
      RevokeCertificate(folder, In(other, TlsRole::kWorker, "tls.crt"), kNow);
  EXPECT_TRUE(absl::IsInvalidArgument(refused));
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr("the certificate is not signed by this CA"));
}

TEST(CertificateFolderTest, AnAuthorityWithTheKeyOfAnotherIsRefused) {
  const std::string folder = Made(), other = Made();
  std::filesystem::copy_file(absl::StrCat(other, "/ca/ca.key"),
                             absl::StrCat(folder, "/ca/ca.key"),
                             std::filesystem::copy_options::overwrite_existing);
  EXPECT_THAT(std::string(RenewCertificates(folder, {}, kDay, kNow).message()),
              HasSubstr("ca.crt: its key belongs to another certificate"));
}

TEST(CertificateFolderTest, WhatCannotBeMadeLeavesNothingBehind) {
  const auto refused = [](const NewCertificates& wanted) {
    const std::string folder = NewFolder();
    const absl::Status status = MakeCertificates(folder, wanted, kNow);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_FALSE(std::filesystem::exists(folder));
    return std::string(status.message());
  };
  NewCertificates wanted = Wanted();
  wanted.job = "a/b";
  EXPECT_THAT(refused(wanted), HasSubstr("is \"a/b\""));
  wanted.job = "a\nb";
  EXPECT_THAT(refused(wanted), HasSubstr("is \"a\\nb\""));
  wanted = Wanted();
  wanted.lifetime = wanted.ca_lifetime + absl::Seconds(1);
  EXPECT_THAT(refused(wanted), HasSubstr("its CA only until"));
  for (const char* host : {"", "a b", "a\nb", "*", "-a", "a..b", "10.0.0.7/8",
                           "h,DNS:other", "host:7000"}) {
    wanted = Wanted();
    wanted.hosts = {"fine", host};
    EXPECT_THAT(refused(wanted), HasSubstr("neither the name of a host"));
  }
}

TEST(CertificateFolderTest, AKeyOnWhichATypoFellIsNamed) {
  const std::string folder = Made();
  const std::string path = In(folder, TlsRole::kLead, "tls.key");
  std::filesystem::resize_file(path, 100);
  EXPECT_THAT(std::string(RenewCertificates(folder, {}, kDay, kNow).message()),
              HasSubstr(absl::StrCat(path, ": has no private key")));
  std::filesystem::remove(path);
  EXPECT_TRUE(RenewCertificates(folder, {}, kDay, kNow).ok());
}

TEST(CertificateFolderTest, LifetimesHaveAUnit) {
  EXPECT_EQ(ParseLifetime("90d"), 90 * kDay);
  EXPECT_EQ(ParseLifetime("12h"), absl::Hours(12));
  EXPECT_EQ(ParseLifetime("30m"), absl::Minutes(30));
  EXPECT_EQ(ParseLifetime("1s"), absl::Seconds(1));
  EXPECT_EQ(ParseLifetime("36500d"), 36500 * kDay);
  for (const char* text : {"", "d", "90", "0d", "-1d", "1.5d", "90w", "36501d",
                           "9223372036854775807d", "99999999999999999999s"}) {
    EXPECT_EQ(ParseLifetime(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace sluice
