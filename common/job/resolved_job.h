#ifndef SLUICE_COMMON_JOB_RESOLVED_JOB_H_
#define SLUICE_COMMON_JOB_RESOLVED_JOB_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/job/data_shape.h"
#include "common/layers/model_plan.h"
#include "common/parameter_layout.h"
#include "proto/job.pb.h"

namespace sluice {

// The longest text of a resolved job (FormatJob): each process sends it with
// its Join, in one message.
inline constexpr int64_t kMostJobTextBytes = int64_t{4} << 20;

// A job that was read, completed with all defaults and found valid, with
// everything derived from it. Every process resolves the same file by itself;
// equal fingerprints show that they agree.
struct ResolvedJob {
  proto::Job job;  // Every optional field is set.
  DataShape data;
  ModelPlan model;
  ParameterLayout layout;
  // SHA-256 (hex) over everything that determines the bits of the run:
  // DecisiveJob, the number of training samples, and the layout's tensors.
  std::string fingerprint;
};

// Reads `path` (textproto), applies `overrides` ("a.b=c" each) in order, fills
// in defaults, validates, and reads the headers of the data's files.
// kUnavailable: the system cannot say just now what a file holds. kNotFound, or
// kInvalidArgument:
//   a typo       "job.textproto:12:3: ... no field named \"foo\""
//   bad values   one line for each, all at once:
//                "sync.k: must be 1 to 4 (cluster.workers) under K_SYNC, is 9"
// and the errors of ReadDataShape and PlanModel for the data and the model.
absl::StatusOr<ResolvedJob> LoadJob(const std::string& path,
                                    const std::vector<std::string>& overrides);

// The same for resuming a run whose resolved job was `run`. Fields that the
// file and the overrides leave out and that would follow from the number of
// workers keep their value of `run`; a K that may not be above this number is
// at most it.
absl::StatusOr<ResolvedJob> LoadJobToResume(
    const std::string& path, const proto::Job& run,
    const std::vector<std::string>& overrides);

// The same from text. `name` is used as the path in messages.
absl::StatusOr<ResolvedJob> ParseJob(const std::string& text,
                                     const std::string& name,
                                     const std::vector<std::string>& overrides);

// All violations in a job whose defaults are filled in, each with its field
// path; empty if it is valid.
std::vector<std::string> Validate(const proto::Job& job);

// Fills in all defaults.
void ResolveDefaults(proto::Job* job);

// The canonical textproto of a job, one field per line.
std::string FormatJob(const proto::Job& job);

// The first field in which two jobs (texts of FormatJob) differ, with both
// values: "sync.k: 3 here, 4 there". Empty if they agree in everything that
// determines the bits of the run (DecisiveJob). If a text is not a job, the
// parser's message.
std::string DescribeDifference(const std::string& here,
                               const std::string& there);

// The same for resuming: `here` is the job to go on with, `there` the job that
// made the checkpoint. Name, stop, limits, the number of shards and, unless
// data is STATIC, the number of workers, with a K that is this number, may
// differ too.
std::string DescribeDifferenceToResume(const std::string& here,
                                       const std::string& there);

}  // namespace sluice

#endif  // SLUICE_COMMON_JOB_RESOLVED_JOB_H_
