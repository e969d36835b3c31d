#include "cli/job_flags.h"

#include <CLI/CLI.hpp>
#include <limits>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/job/initial_weights.h"
#include "common/status_macros.h"

namespace sluice {

std::string WhyNoSeed(const std::string& text) {
  uint64_t seed = 0;
  return absl::SimpleAtoi(text, &seed)
             ? ""
             : absl::StrCat("expected a whole number from 0 to 2^64 - 1, is ",
                            text);
}

CLI::Validator NumberFrom(double low, double high) {
  const std::string range = absl::StrCat("from ", low, " to ", high);
  const auto why_not = [low, high, range](const std::string& text) {
    double value = 0;
    return absl::SimpleAtod(text, &value) && value >= low && value <= high
               ? ""
               : absl::StrCat("expected a number ", range, ", is ", text);
  };
  return CLI::Validator(why_not, range);
}

CLI::Validator WholeFrom(int64_t low, int64_t high) {
  const std::string range = absl::StrCat("from ", low, " to ", high);
  const auto why_not = [low, high, range](const std::string& text) {
    int64_t value = 0;
    return absl::SimpleAtoi(text, &value) && value >= low && value <= high
               ? ""
               : absl::StrCat("expected a whole number ", range, ", is ", text);
  };
  return CLI::Validator(why_not, range);
}

void JobFlags::AddTo(CLI::App& command) {
  AddAllButSeedTo(command);
  command.add_option("--seed", seed, "Sets seed")->check(WhyNoSeed);
}

void JobFlags::AddAllButSeedTo(CLI::App& command) {
  command.add_option("JOB", path, "The job file (textproto)")->required();
  // What the job takes LoadJob knows.
  const CLI::Validator count = WholeFrom(0, std::numeric_limits<int>::max());
  command.add_option("--workers", workers, "Sets cluster.workers")
      ->check(count);
  command.add_option("--shards", shards, "Sets cluster.shards")->check(count);
  // One value for each --set, so that a job file may follow it.
  command.add_option("--set", set, "Sets a field: --set sync.k=3; repeatable")
      ->allow_extra_args(false)
      ->type_name("FIELD=VALUE");
}

std::vector<std::string> JobFlags::Overrides() const {
  std::vector<std::string> overrides = set;
  if (workers) {
    overrides.push_back(absl::StrCat("cluster.workers=", *workers));
  }
  if (shards) overrides.push_back(absl::StrCat("cluster.shards=", *shards));
  if (seed) overrides.push_back(absl::StrCat("seed=", *seed));
  return overrides;
}

std::vector<std::string> JobFlags::Words() const {
  std::vector<std::string> words = {path};
  const auto add = [&](const char* flag, const std::string& value) {
    words.push_back(flag);
    words.push_back(value);
  };
  for (const std::string& field : set) add("--set", field);
  if (workers) add("--workers", absl::StrCat(*workers));
  if (shards) add("--shards", absl::StrCat(*shards));
  if (seed) add("--seed", absl::StrCat(*seed));
  return words;
}

namespace {

// The shards would refuse the same weights, only later.
absl::StatusOr<ResolvedJob> WithWeights(absl::StatusOr<ResolvedJob> job) {
  if (!job.ok()) return job;
  SLUICE_RETURN_IF_ERROR(InitialWeights::Open(*job).status());
  return job;
}

}  // namespace

absl::StatusOr<ResolvedJob> JobFlags::Load() const {
  return WithWeights(LoadJob(path, Overrides()));
}

absl::StatusOr<ResolvedJob> JobFlags::LoadToResume(
    const std::string& run_dir) const {
  SLUICE_ASSIGN_OR_RETURN(const ResolvedJob run,
                          LoadJob(absl::StrCat(run_dir, "/job.textproto"), {}));
  return WithWeights(LoadJobToResume(path, run.job, Overrides()));
}

}  // namespace sluice
