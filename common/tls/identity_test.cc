#include "common/tls/identity.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;

TEST(TlsIdentityTest, AUriSaysTheJobAndTheRole) {
  EXPECT_EQ((TlsIdentity{"linear", TlsRole::kWorker}).Uri(),
            "spiffe://sluice/linear/worker");
  for (const TlsRole role : kTlsRoles) {
    const TlsIdentity identity{"a.b-c_9", role};
    const auto parsed = ParseTlsUri(identity.Uri());
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    EXPECT_EQ(*parsed, identity);
  }
}

TEST(TlsIdentityTest, NobodyConnectsToTheEvaluatorOrToAnOperator) {
  for (const TlsRole role : kTlsRoles) {
    EXPECT_NE(Listens(role),
              role == TlsRole::kEvaluator || role == TlsRole::kOperator)
        << TlsRoleName(role);
  }
}

TEST(TlsIdentityTest, AnyOtherUriIsNobody) {
  for (const char* uri :
       {"", "spiffe://sluice/", "spiffe://sluice/job", "spiffe://sluice//lead",
        "spiffe://sluice/job/", "spiffe://sluice/job/boss",
        "spiffe://sluice/job/Lead", "spiffe://sluice/job/lead/",
        "spiffe://sluice/a/b/lead", "spiffe://sluice/../lead",
        "spiffe://sluice/job/lead?x", "spiffe://other/job/lead",
        "SPIFFE://sluice/job/lead", " spiffe://sluice/job/lead",
        "https://sluice/job/lead"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(ParseTlsUri(uri).status())) << uri;
  }
  const std::string with_zero("spiffe://sluice/job/lead\0", 25);
  EXPECT_FALSE(ParseTlsUri(with_zero).ok());
}

TEST(TlsIdentityTest, ANameThatAJobCannotHaveIsRefusedAndShownEscaped) {
  for (const std::string job :
       {"", "a/b", "a b", "a\nb", "..", "-a", "a\x7f", "a%2fb"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(CheckJobName(job))) << job;
  }
  EXPECT_FALSE(CheckJobName(std::string(65, 'a')).ok());
  EXPECT_TRUE(CheckJobName(std::string(64, 'a')).ok());
  EXPECT_THAT(std::string(CheckJobName("a\n\x1b[2J").message()),
              HasSubstr("is \"a\\n\\x1b[2J\""));
}

}  // namespace
}  // namespace sluice
