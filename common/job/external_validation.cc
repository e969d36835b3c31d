#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "common/job/job_checker.h"

namespace sluice {
namespace {

// Far above any use, and small enough that their sum cannot overflow.
constexpr int64_t kMostWeights = int64_t{1} << 36;
constexpr int64_t kMostOfSide = int64_t{1} << 31;

bool IsPrintable(const std::string& name) {
  for (const char c : name) {
    if (c <= ' ' || c > '~') return false;
  }
  return !name.empty() && name.size() <= 256;
}

// Floats of the tensor, 0 if its shape is none; at most a little more than
// kMostWeights.
int64_t CheckShape(const std::string& path, const proto::ExternalTensor& tensor,
                   Checker* check) {
  int64_t floats = 1;
  for (int i = 0; i < tensor.shape_size(); ++i) {
    check->Between(absl::StrCat(path, ".shape[", i, "]"), tensor.shape(i),
                   int64_t{1}, kMostOfSide);
    if (tensor.shape(i) < 1 || tensor.shape(i) > kMostOfSide) {
      floats = 0;
    } else {
      floats = floats <= kMostWeights / tensor.shape(i)
                   ? floats * tensor.shape(i)
                   : kMostWeights + 1;
    }
  }
  return floats;
}

void CheckMomentum(const std::string& path, const proto::ExternalTensor& tensor,
                   Checker* check) {
  const std::string momentum = absl::StrCat(path, ".momentum");
  if (tensor.kind() == proto::ExternalTensor::STATISTIC) {
    check->AboveZero(momentum, tensor.momentum(), 1);
  } else {
    check->Require(!tensor.has_momentum(), momentum,
                   "is of a STATISTIC only, and this tensor is none");
  }
}

void CheckTensors(const proto::ExternalModel& external, Checker* check) {
  const std::string all = "model.external.tensor";
  check->Require(external.tensor_size() > 0, all,
                 "must have at least one, has none");
  absl::flat_hash_map<std::string, int> names;
  int64_t floats = 0;
  for (int i = 0; i < external.tensor_size(); ++i) {
    const proto::ExternalTensor& tensor = external.tensor(i);
    const std::string path = absl::StrCat(all, "[", i, "]");
    check->Require(IsPrintable(tensor.name()), absl::StrCat(path, ".name"),
                   absl::StrCat("must be 1 to 256 printable characters of "
                                "ASCII without spaces, is \"",
                                tensor.name(), "\""));
    const auto [taken, is_new] = names.emplace(tensor.name(), i);
    check->Require(
        is_new, absl::StrCat(path, ".name"),
        absl::StrCat("must be another than ", all, "[", taken->second,
                     "]'s, is \"", tensor.name(), "\" too"));
    CheckMomentum(path, tensor, check);
    floats += CheckShape(path, tensor, check);
    if (floats <= kMostWeights) continue;
    check->Add(all,
               absl::StrCat("must have at most ", kMostWeights,
                            " weights in all, has more up to tensor[", i, "]"));
    return;
  }
}

// What the native worker would do with samples or layers.
void CheckRefusals(const proto::Job& job, Checker* check) {
  const proto::Worker& worker = job.worker();
  const auto refuse = [&](bool holds, const std::string& path,
                          const std::string& expected) {
    check->Require(holds, path,
                   absl::StrCat("must be ", expected, " with model.external"));
  };
  refuse(job.model().layer().empty(), "model.layer", "empty");
  refuse(job.model().loss() == proto::Model::MODEL_PROCESS, "model.loss",
         "MODEL_PROCESS");
  check->Require(!job.model().init_from().empty(), "model.init_from",
                 "must name a file with model.external, is not set");
  refuse(!job.data().has_augmentation(), "data.augmentation", "absent");
  refuse(
      worker.micro_batch() >= job.data().batch_size(), "worker.micro_batch",
      absl::StrCat("data.batch_size (", job.data().batch_size(), ") or more"));
  refuse(worker.clip_norm() == 0, "worker.clip_norm", "0");
  refuse(worker.precision() == proto::Worker::FP32, "worker.precision", "FP32");
  refuse(worker.device() == proto::CPU, "worker.device", "CPU");
  refuse(worker.gpus().empty(), "worker.gpus", "empty");
}

}  // namespace

void CheckExternal(const proto::Job& job, Checker* check) {
  const bool model = job.model().has_external();
  if (model != job.data().has_external()) {
    check->Add(
        model ? "data.external" : "model.external",
        absl::StrCat("must be set with ",
                     model ? "model.external" : "data.external", ", is not"));
  }
  if (!model) {
    check->Require(job.model().loss() != proto::Model::MODEL_PROCESS,
                   "model.loss",
                   "must be another than MODEL_PROCESS without "
                   "model.external");
    return;
  }
  CheckTensors(job.model().external(), check);
  CheckRefusals(job, check);
}

}  // namespace sluice
