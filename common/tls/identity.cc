#include "common/tls/identity.h"

#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/job/job_checker.h"
#include "common/status_macros.h"

namespace sluice {
namespace {

constexpr char kPrefix[] = "spiffe://sluice/";

absl::Status NotAnIdentity(absl::string_view uri) {
  return absl::InvalidArgumentError(
      absl::StrCat("\"", absl::CHexEscape(uri), "\" is not ", kPrefix,
                   "JOB/ROLE with a role of lead, shard, worker, evaluator, "
                   "operator"));
}

}  // namespace

absl::string_view TlsRoleName(TlsRole role) {
  switch (role) {
    case TlsRole::kLead:
      return "lead";
    case TlsRole::kShard:
      return "shard";
    case TlsRole::kWorker:
      return "worker";
    case TlsRole::kEvaluator:
      return "evaluator";
    case TlsRole::kOperator:
      return "operator";
  }
  return "";
}

bool Listens(TlsRole role) {
  return NamesHosts(role) || role == TlsRole::kWorker;
}

bool NamesHosts(TlsRole role) {
  return role == TlsRole::kLead || role == TlsRole::kShard;
}

absl::Status CheckJobName(absl::string_view job) {
  Checker checker;
  checker.Name("name", std::string(job));
  if (checker.Take().empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "a job's name has 1 to 64 letters, digits, '_', '-' or '.', the first "
      "neither '-' nor '.', is \"",
      absl::CHexEscape(job), "\""));
}

std::string TlsIdentity::Uri() const {
  return absl::StrCat(kPrefix, job, "/", TlsRoleName(role));
}

absl::StatusOr<TlsIdentity> ParseTlsUri(absl::string_view uri) {
  absl::string_view rest = uri;
  if (!absl::ConsumePrefix(&rest, kPrefix)) return NotAnIdentity(uri);
  const std::vector<absl::string_view> parts = absl::StrSplit(rest, '/');
  if (parts.size() != 2 || !CheckJobName(parts[0]).ok()) {
    return NotAnIdentity(uri);
  }
  for (const TlsRole role : kTlsRoles) {
    if (parts[1] == TlsRoleName(role)) {
      return TlsIdentity{std::string(parts[0]), role};
    }
  }
  return NotAnIdentity(uri);
}

}  // namespace sluice
