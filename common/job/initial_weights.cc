// Errors of the file are prefixed with the field that names it, because the
// user knows the job and not the file's format.
#include "common/job/initial_weights.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace sluice {
namespace {

absl::Status Named(const absl::Status& status) {
  return absl::Status(status.code(),
                      absl::StrCat("model.init_from: ", status.message()));
}

}  // namespace

InitialWeights::InitialWeights(uint64_t seed, ParameterLayout layout)
    : seed_(seed), layout_(std::move(layout)) {}

absl::StatusOr<InitialWeights> InitialWeights::Open(const ResolvedJob& job) {
  InitialWeights weights(job.job.seed(), job.layout);
  const std::string& path = job.job.model().init_from();
  if (path.empty()) return weights;
  absl::StatusOr<SafetensorsFile> file =
      SafetensorsFile::Open(path, job.layout);
  if (!file.ok()) return Named(file.status());
  weights.file_.emplace(*std::move(file));
  return weights;
}

absl::StatusOr<std::string> InitialWeights::Digest() const {
  if (!file_.has_value()) return "";
  const absl::StatusOr<std::string> sha = file_->Sha256();
  if (!sha.ok()) return Named(sha.status());
  return absl::StrCat("sha256 ", *sha);
}

absl::StatusOr<std::vector<float>> InitialWeights::Read(
    ParameterRange range) const {
  if (!file_.has_value()) return layout_.InitialWeights(seed_, range);
  absl::StatusOr<std::vector<float>> floats = file_->Read(range);
  return floats.ok() ? floats : Named(floats.status());
}

}  // namespace sluice
