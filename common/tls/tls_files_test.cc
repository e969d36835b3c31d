#include "common/tls/tls_files.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/tls/authority.h"
#include "common/tls/testing/role_files.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;

const absl::Time kNow = absl::FromUnixSeconds(1'800'000'000);
constexpr absl::Duration kHour = absl::Hours(1);

Authority NewAuthority(const std::string& job = "linear") {
  return NewAuthorityFor(job, kNow);
}

// What CheckOwnFiles says of a worker's files in job "linear".
std::string Refusal(const TlsFiles& files, absl::Time now = kNow) {
  const auto checked = CheckOwnFiles(files, "linear", TlsRole::kWorker, now);
  EXPECT_TRUE(absl::IsInvalidArgument(checked.status())) << checked.status();
  return std::string(checked.status().message());
}

TEST(OwnFilesTest, FilesThatFitSayWhoOneIs) {
  const Authority authority = NewAuthority();
  for (const TlsRole role : kTlsRoles) {
    const TlsFiles files = WriteRoleFiles(authority, role, kNow);
    for (const char* job : {"linear", ""}) {
      const auto checked = CheckOwnFiles(files, job, role, kNow);
      ASSERT_TRUE(checked.ok()) << checked.status();
      EXPECT_EQ(*checked, (TlsIdentity{"linear", role}));
    }
  }
}

TEST(OwnFilesTest, AFileThatIsMissingOrCannotBeReadIsNamed) {
  const Authority authority = NewAuthority();
  const TlsFiles good = WriteRoleFiles(authority, TlsRole::kWorker, kNow);
  for (std::string TlsFiles::*file : {&TlsFiles::ca, &TlsFiles::certificate,
                                      &TlsFiles::key, &TlsFiles::crl}) {
    TlsFiles files = good;
    files.*file = "/no/such.file";
    EXPECT_THAT(Refusal(files), HasSubstr("/no/such.file"));
    files.*file = WriteText("garbage");
    EXPECT_THAT(Refusal(files),
                HasSubstr(absl::StrCat(files.*file, ": has no")));
    files.*file = WriteText("");
    EXPECT_THAT(Refusal(files),
                HasSubstr(absl::StrCat(files.*file, ": has no")));
  }
}

TEST(OwnFilesTest, ACertificateThatHasExpiredOrIsNotYetValidIsNamed) {
  const TlsFiles files =
      WriteRoleFiles(NewAuthority(), TlsRole::kWorker, kNow, kHour);
  EXPECT_TRUE(CheckOwnFiles(files, "linear", TlsRole::kWorker,
                            kNow + kHour - absl::Seconds(1))
                  .ok());
  EXPECT_THAT(Refusal(files, kNow + kHour),
              HasSubstr("the certificate expired at 2027-01-15 09:00:00 UTC, "
                        "now is 2027-01-15 09:00:00 UTC"));
  EXPECT_THAT(Refusal(files, kNow - kHour), HasSubstr("is valid from"));
}

TEST(OwnFilesTest, TheKeyOfAnotherCertificateIsNamed) {
  const Authority authority = NewAuthority();
  TlsFiles files = WriteRoleFiles(authority, TlsRole::kWorker, kNow);
  files.key = WriteRoleFiles(authority, TlsRole::kWorker, kNow).key;
  EXPECT_THAT(Refusal(files),
              HasSubstr(absl::StrCat(files.key, ": is not the key of ")));
}

TEST(OwnFilesTest, ACertificateOfAForeignAuthorityIsNamed) {
  TlsFiles files = WriteRoleFiles(NewAuthority(), TlsRole::kWorker, kNow);
  files.ca = WriteRoleFiles(NewAuthority(), TlsRole::kWorker, kNow).ca;
  EXPECT_THAT(Refusal(files), HasSubstr("is not verified by"));
}

TEST(OwnFilesTest, TheCertificateOfAnotherJobOrRoleIsNamed) {
  EXPECT_THAT(
      Refusal(WriteRoleFiles(NewAuthority("other"), TlsRole::kWorker, kNow)),
      HasSubstr("is for spiffe://sluice/other/worker, expected "
                "spiffe://sluice/linear/worker"));
  EXPECT_THAT(Refusal(WriteRoleFiles(NewAuthority(), TlsRole::kShard, kNow)),
              HasSubstr("is for spiffe://sluice/linear/shard, expected"));
  // The authority's own certificate names a job, and no role.
  const Authority authority = NewAuthority();
  TlsFiles files = WriteRoleFiles(authority, TlsRole::kWorker, kNow);
  files.certificate = files.ca;
  files.key = WriteText(ToPem(authority.key().get()));
  EXPECT_THAT(Refusal(files), HasSubstr("is not spiffe://sluice/JOB/ROLE"));
}

TEST(OwnFilesTest, ARevokedCertificateIsNamed) {
  const Authority authority = NewAuthority();
  TlsFiles files = WriteRoleFiles(authority, TlsRole::kWorker, kNow);
  files.crl = WriteRevoked(authority, files, kNow);
  EXPECT_THAT(Refusal(files), HasSubstr("the certificate is revoked by"));
  files.crl = WriteRevoked(NewAuthority(), std::nullopt, kNow);
  EXPECT_THAT(Refusal(files), HasSubstr("is not signed by a CA in"));
}

// The code and the message.
std::string PeerRefusal(const TlsFiles& peer, const std::string& job,
                        const std::vector<TlsRole>& roles,
                        X509_CRL* revoked = nullptr) {
  const absl::Status checked =
      CheckPeer(*ReadSmallFile(peer.certificate), job, roles, revoked);
  EXPECT_TRUE(absl::IsUnauthenticated(checked)) << checked;
  return std::string(checked.message());
}

TEST(PeerTest, APeerIsOfTheJobAndOfOneOfTheRoles) {
  const Authority authority = NewAuthority();
  const TlsFiles shard = WriteRoleFiles(authority, TlsRole::kShard, kNow);
  EXPECT_TRUE(CheckPeer(*ReadSmallFile(shard.certificate), "linear",
                        {TlsRole::kLead, TlsRole::kShard}, nullptr)
                  .ok());
  EXPECT_EQ(PeerRefusal(shard, "linear", {TlsRole::kLead}),
            "the peer's certificate is for spiffe://sluice/linear/shard, "
            "expected spiffe://sluice/linear/lead");
  EXPECT_THAT(PeerRefusal(shard, "other", {TlsRole::kLead, TlsRole::kShard}),
              HasSubstr("expected spiffe://sluice/other/lead or "
                        "spiffe://sluice/other/shard"));
  EXPECT_TRUE(absl::IsUnauthenticated(
      CheckPeer("garbage", "linear", {TlsRole::kShard}, nullptr)));
}

TEST(PeerTest, ARevokedPeerIsRefusedAndTheOthersAreNot) {
  const Authority authority = NewAuthority();
  const TlsFiles one = WriteRoleFiles(authority, TlsRole::kWorker, kNow);
  const TlsFiles two = WriteRoleFiles(authority, TlsRole::kWorker, kNow);
  TlsFiles with_list = two;
  with_list.crl = WriteRevoked(authority, one, kNow);
  const auto revoked = ReadRevoked(with_list);
  ASSERT_TRUE(revoked.ok()) << revoked.status();
  EXPECT_THAT(PeerRefusal(one, "linear", {TlsRole::kWorker}, revoked->get()),
              HasSubstr("is revoked"));
  EXPECT_TRUE(CheckPeer(*ReadSmallFile(two.certificate), "linear",
                        {TlsRole::kWorker}, revoked->get())
                  .ok());
}

}  // namespace
}  // namespace sluice
