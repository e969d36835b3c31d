#ifndef SLUICE_COMMON_JOB_INITIAL_WEIGHTS_H_
#define SLUICE_COMMON_JOB_INITIAL_WEIGHTS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/formats/safetensors.h"
#include "common/job/resolved_job.h"
#include "common/parameter_layout.h"

namespace sluice {

// Version 0 of a job, from the file model.init_from or from the layers'
// initializers.
//
// Thread-compatible.
class InitialWeights {
 public:
  // Opens the file, if the job names one. Errors are those of
  // SafetensorsFile::Open, prefixed with "model.init_from: ".
  static absl::StatusOr<InitialWeights> Open(const ResolvedJob& job);

  // The weights of `range`. Of a file only that part is read. Errors of
  // SafetensorsFile::Read.
  // REQUIRES: `range` lies within the job's layout.
  absl::StatusOr<std::vector<float>> Read(ParameterRange range) const;

  // "sha256 ..." of the file's contents, all of which are read; empty if there
  // is no file. Errors of SafetensorsFile::Sha256.
  absl::StatusOr<std::string> Digest() const;

 private:
  InitialWeights(uint64_t seed, ParameterLayout layout);

  uint64_t seed_;
  ParameterLayout layout_;
  std::optional<SafetensorsFile> file_;
};

}  // namespace sluice

#endif  // SLUICE_COMMON_JOB_INITIAL_WEIGHTS_H_
