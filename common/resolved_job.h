#ifndef SLUICE_COMMON_RESOLVED_JOB_H_
#define SLUICE_COMMON_RESOLVED_JOB_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/data_shape.h"
#include "common/layers/model_plan.h"
#include "common/parameter_layout.h"
#include "proto/job.pb.h"

namespace sluice {

// A job that has been read, completed with every default, and found valid,
// with what follows from it. Every process makes its own from the same file;
// the fingerprint shows that they agree.
struct ResolvedJob {
  proto::Job job;  // Every optional field is set.
  DataShape data;
  ModelPlan model;
  ParameterLayout layout;
  // SHA-256 (hex) over what decides the bits of the run: DecisiveJob, the
  // number of training samples, and the layout's tensors.
  std::string fingerprint;
};

// Reads `path` (textproto), applies `overrides`, each "a.b=c", in order, fills
// in defaults, validates, and reads the headers of the data's files.
// kNotFound, or kInvalidArgument:
//   a typo       "job.textproto:12:3: ... no field named \"foo\""
//   bad values   one line for each, all at once:
//                "sync.k: must be 1 to 4 (cluster.workers) under K_SYNC, is 9"
// and whatever ReadDataShape and PlanModel say of the data and the model.
absl::StatusOr<ResolvedJob> LoadJob(const std::string& path,
                                    const std::vector<std::string>& overrides);

// The same for a run that is to go on and had the resolved job `run`: what the
// file leaves out and would follow from the number of workers is as it was
// there.
absl::StatusOr<ResolvedJob> LoadJobToResume(
    const std::string& path, const proto::Job& run,
    const std::vector<std::string>& overrides);

// The same from text; `name` stands for the path in messages.
absl::StatusOr<ResolvedJob> ParseJob(const std::string& text,
                                     const std::string& name,
                                     const std::vector<std::string>& overrides);

// Every violation of a job whose defaults are filled in, with its field path;
// empty when it is valid.
std::vector<std::string> Validate(const proto::Job& job);

// Fills in what is left out.
void ResolveDefaults(proto::Job* job);

// How many gradients an update takes when nobody is missing; where that
// changes during the run (sync.k_schedule), the most.
// REQUIRES: defaults are filled in.
int MostGradientsPerUpdate(const proto::Sync& sync);

// How many workers may take part at once. REQUIRES: as above.
int MostWorkers(const proto::Cluster& cluster);

// Canonical textproto of a job, one field per line.
std::string FormatJob(const proto::Job& job);

// The first field in which two jobs (textproto, as FormatJob prints) differ
// and both values: "sync.k: 3 here, 4 there"; empty when they agree in all
// that decides the bits of the run (DecisiveJob). What is wrong with a text
// that is no job.
std::string DescribeDifference(const std::string& here,
                               const std::string& there);

// The same of a run that is to go on with the job `here`, of which the job
// `there` has made a checkpoint: name, stop, limits, and the numbers of shards
// and, unless data is STATIC, of workers may differ as well.
std::string DescribeDifferenceToResume(const std::string& here,
                                       const std::string& there);

}  // namespace sluice

#endif  // SLUICE_COMMON_RESOLVED_JOB_H_
