// Parses any text as a job, with any overrides.
//
// Must hold: a job is accepted, or refused with a status that names the field
// or the place and, for a value, what it must be and what it is. An accepted
// job that is printed and parsed again is the same job: valid, with the same
// fingerprint, and with shard ranges that cover its weights.
//
// Input: the text, then each override after a byte 0.

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "common/job/resolved_job.h"
#include "common/status_macros.h"

namespace sluice {
namespace {

// Whether a message states only that something exists or is not allowed.
bool HasNoValue(absl::string_view line) {
  for (const absl::string_view what :
       {"must be set", "must be another than", "must be false without"}) {
    if (absl::StrContains(line, what)) return true;
  }
  return false;
}

void CheckError(const absl::Status& status, absl::string_view input) {
  // kDataLoss: from a data file that the job names.
  SLUICE_CHECK(status.code() == absl::StatusCode::kInvalidArgument ||
               status.code() == absl::StatusCode::kNotFound ||
               status.code() == absl::StatusCode::kDataLoss);
  SLUICE_CHECK(absl::StrContains(status.message(), ": "));
  if (absl::StrContains(input, "must be")) return;  // Messages quote the input.
  for (const absl::string_view line : absl::StrSplit(status.message(), '\n')) {
    if (!absl::StrContains(line, ": must be ") || HasNoValue(line)) continue;
    SLUICE_CHECK(absl::StrContains(line, " is ") ||
                 absl::StrContains(line, ", not "));
  }
}

void CheckAccepted(const ResolvedJob& job) {
  SLUICE_CHECK(Validate(job.job).empty());
  const std::string text = FormatJob(job.job);
  const auto again = ParseJob(text, "again", {});
  SLUICE_CHECK(again.ok());
  SLUICE_CHECK(FormatJob(again->job) == text);
  SLUICE_CHECK(again->fingerprint == job.fingerprint);
  SLUICE_CHECK(DescribeDifference(text, FormatJob(again->job)).empty());
  int64_t covered = 0;
  for (int shard = 0; shard < job.layout.shards(); ++shard) {
    const ParameterRange range = job.layout.range(ShardId(shard));
    SLUICE_CHECK(range.begin == covered);
    SLUICE_CHECK(range.size() > 0);
    covered = range.end;
  }
  SLUICE_CHECK(covered == job.layout.size());
}

}  // namespace
}  // namespace sluice

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string input(reinterpret_cast<const char*>(data), size);
  std::vector<std::string> overrides = absl::StrSplit(input, '\0');
  const std::string text = overrides.front();
  overrides.erase(overrides.begin());
  const auto job = sluice::ParseJob(text, "job", overrides);
  if (job.ok()) {
    sluice::CheckAccepted(*job);
  } else {
    sluice::CheckError(job.status(), input);
  }
  return 0;
}
