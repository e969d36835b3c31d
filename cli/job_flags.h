#ifndef SLUICE_CLI_JOB_FLAGS_H_
#define SLUICE_CLI_JOB_FLAGS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/job/resolved_job.h"

namespace CLI {
class App;
class Validator;
}  // namespace CLI

namespace sluice {

// Why `text` is no seed, for CLI::Option::check, to which -1 is 2^64 - 1;
// empty: it is one.
std::string WhyNoSeed(const std::string& text);

// Takes numbers from `low` to `high`. CLI::Range also takes NaN.
CLI::Validator NumberFrom(double low, double high);
// The same of whole numbers. CLI::Range says of 1e6, too, that it is not in the
// range.
CLI::Validator WholeFrom(int64_t low, int64_t high);

// The job file and its overrides on the command line, the same for every
// command that takes a job.
struct JobFlags {
  std::string path;
  std::optional<int> workers;
  std::optional<int> shards;
  std::optional<uint64_t> seed;
  std::vector<std::string> set;

  // Adds the flags to `command`; this outlives it.
  void AddTo(CLI::App& command);
  // The same without --seed, for a command that has another one.
  void AddAllButSeedTo(CLI::App& command);

  // The overrides in order: --set first, so that named flags win.
  std::vector<std::string> Overrides() const;

  // The same flags as words of a command line, the job file first.
  std::vector<std::string> Words() const;

  // Errors as LoadJob's and InitialWeights::Open's.
  absl::StatusOr<ResolvedJob> Load() const;
  // The same for a job that resumes the run in `run_dir`. Defaults that follow
  // from the number of workers stay as they were in that run, as far as that
  // number allows. Errors also as LoadJob's of the run's job.textproto.
  absl::StatusOr<ResolvedJob> LoadToResume(const std::string& run_dir) const;
};

}  // namespace sluice

#endif  // SLUICE_CLI_JOB_FLAGS_H_
