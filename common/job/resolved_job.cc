// A job is resolved in a fixed order, because each step needs the one before:
//
//   text -> overrides -> defaults -> Validate (the job alone)
//        -> headers of the data -> model plan -> tensor groups -> cuts of a
//        worker's members -> layout
//        -> ValidateTogether (job, data and model) -> fingerprint
//
// Two reductions of a job say what must be equal. DecisiveJob: between the
// processes of a run. A worker whose file has another output.dir may join, one
// with another sync.k may not. LastingJob: between a checkpoint and the job
// that resumes from it. There cluster.shards may differ too.
#include "common/job/resolved_job.h"

#include <google/protobuf/text_format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/job/decisive_job.h"
#include "common/job/group.h"
#include "common/job/job_text.h"
#include "common/job/stage_plan.h"
#include "common/job/tensor_groups.h"
#include "common/sha256.h"
#include "common/status_macros.h"

namespace sluice {
namespace {

// Larger than any job file; catches a device or a data file given by mistake.
constexpr int64_t kMostJobBytes = int64_t{1} << 24;

// Why a job could not be opened. A file server that does not answer, or a
// process without a free descriptor, says nothing about the job.
absl::Status OpenError(const std::string& path, int reason) {
  const std::string text = absl::StrCat(path, ": ", std::strerror(reason));
  switch (reason) {
    case ENOENT:
      return absl::NotFoundError(absl::StrCat(path, ": no such file"));
    case EACCES:
    case ELOOP:
    case ENAMETOOLONG:
    case ENOTDIR:
      return absl::InvalidArgumentError(text);
  }
  return absl::UnavailableError(text);
}

// A job may come from a pipe, which InputFile does not open.
absl::StatusOr<std::string> ReadText(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return OpenError(path, errno);
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": is a folder, expected a job file"));
  }
  std::string text(kMostJobBytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (file.bad() || (!file.eof() && file.gcount() == 0)) {
    return absl::UnavailableError(
        absl::StrCat(path, ": cannot be read: ", std::strerror(errno)));
  }
  if (file.gcount() > kMostJobBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        path, ": is larger than a job file may be, ", kMostJobBytes, " bytes"));
  }
  text.resize(file.gcount());
  return text;
}

// Checks that the model takes the data's inputs and has an output for each
// label.
void CheckModelFits(const ResolvedJob& resolved,
                    std::vector<std::string>* violations) {
  if (resolved.job.model().has_external()) return;  // Its process knows.
  const DataShape& data = resolved.data;
  if (resolved.model.vocabulary == 0 && data.vocabulary > 0) {
    violations->push_back(
        "model.layer: the first layer must be an embedding for data.text");
    return;
  }
  if (resolved.model.vocabulary > 0 && data.vocabulary == 0) {
    violations->push_back("model.layer: an embedding needs data.text");
    return;
  }
  const LayerPlan& last = resolved.model.layers.back();
  const std::vector<int64_t>& output = last.output_shape;
  if (output.size() == 1 && output[0] < data.classes) {
    violations->push_back(
        absl::StrCat("model.layer: the last layer must have ", data.classes,
                     " outputs or more, because ", data.largest_label_at,
                     " has label ", data.classes - 1, "; it has ", output[0]));
    return;
  }
  if (data.vocabulary == 0) {
    if (data.classification || output == std::vector<int64_t>{1}) return;
    violations->push_back(
        absl::StrCat("model.layer: the last layer must have 1 output for "
                     "data.linear_regression, has ",
                     output[0]));
    return;
  }
  if (output.size() != 2 || output[0] != data.labels ||
      output[1] < data.vocabulary) {
    violations->push_back(
        absl::StrCat("model.layer: the last layer must have (", data.labels,
                     ", ", data.vocabulary,
                     ") outputs or more for data.text, one for each value "
                     "of a byte at each place, has (",
                     absl::StrJoin(output, ", "), ")"));
  }
}

// "jpeg", of data.jpeg.
std::string ReaderName(const proto::Data& data) {
  return data.GetDescriptor()->FindFieldByNumber(data.reader_case())->name();
}

// Finds violations that need the data and the model.
std::vector<std::string> ValidateTogether(const ResolvedJob& resolved) {
  const proto::Job& job = resolved.job;
  std::vector<std::string> violations;
  const std::string& loss = proto::Model::Loss_Name(job.model().loss());
  if (job.model().loss() == proto::Model::SOFTMAX_CROSS_ENTROPY &&
      !resolved.data.classification) {
    violations.push_back(absl::StrCat(
        "model.loss: ", loss,
        " needs labels, which data.linear_regression does not have"));
  }
  if (job.model().loss() == proto::Model::MEAN_SQUARED_ERROR &&
      resolved.data.classification) {
    violations.push_back(
        absl::StrCat("model.loss: ", loss, " needs real targets, which data.",
                     ReaderName(job.data()), " does not have"));
  }
  if (job.data().has_augmentation()) {
    const std::vector<int64_t>& image = resolved.data.input_shape;
    const int64_t most = std::min(image[1], image[2]) - 1;
    if (job.data().augmentation().crop_padding() > most) {
      violations.push_back(absl::StrCat(
          "data.augmentation.crop_padding: must be 0 to ", most,
          " (below the images' height and width, ", image[1], " x ", image[2],
          "), is ", job.data().augmentation().crop_padding()));
    }
  }
  CheckModelFits(resolved, &violations);
  const int64_t units =
      (resolved.layout.size() + ParameterLayout::kAlignment - 1) /
      ParameterLayout::kAlignment;
  if (job.cluster().shards() > units) {
    violations.push_back(absl::StrCat(
        "cluster.shards: must be 1 to ", units, " (one per ",
        ParameterLayout::kAlignment, " of ", resolved.layout.size(),
        " weights), is ", job.cluster().shards()));
  }
  if (job.data().sharding() == proto::Data::STATIC &&
      job.cluster().workers() > resolved.data.train_samples) {
    violations.push_back(absl::StrCat(
        "cluster.workers: must be 1 to ", resolved.data.train_samples,
        " (training samples) with data.sharding STATIC, is ",
        job.cluster().workers()));
  }
  return violations;
}

std::string Fingerprint(const ResolvedJob& resolved) {
  Sha256 sha;
  sha.Update(FormatJob(DecisiveJob(resolved.job)));
  sha.Update(absl::StrCat("train_samples ", resolved.data.train_samples, "\n"));
  for (const TensorSpec& tensor : resolved.layout.tensors()) {
    sha.Update(absl::StrCat("tensor ", tensor.name, " ",
                            absl::StrJoin(tensor.shape, "x"), "\n"));
  }
  return sha.Hex();
}

// A job that is longer could not join: no message has room for it.
absl::Status CheckTextLength(const proto::Job& job, const std::string& name) {
  const auto bytes = static_cast<int64_t>(FormatJob(job).size());
  if (bytes <= kMostJobTextBytes) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(name, ": has ", bytes,
                   " bytes with all defaults, a line for each field, ",
                   "may have ", kMostJobTextBytes));
}

absl::Status Invalid(const std::vector<std::string>& violations) {
  if (violations.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrJoin(violations, "\n"));
}

// K counts workers, and so is at most their number.
bool KCountsWorkers(const proto::Sync& sync) {
  return sync.policy() == proto::K_SYNC || sync.policy() == proto::K_ASYNC;
}

// Overrides that keep the values of `run` for fields that `job` (without
// defaults) derives from cluster.workers. Where these are too few for a K that
// counts them, it is their number.
std::vector<std::string> KeptFrom(const proto::Sync& run,
                                  const proto::Job& job) {
  proto::Job whole = job;
  ResolveDefaults(&whole);
  const auto within = [&whole](int k) {
    return KCountsWorkers(whole.sync()) ? std::min(k, whole.cluster().workers())
                                        : k;
  };
  std::vector<std::string> kept;
  if (!job.sync().has_k()) {
    kept.push_back(absl::StrCat("sync.k=", within(run.k())));
  }
  if (!job.sync().has_gradients_per_update()) {
    kept.push_back(
        absl::StrCat("sync.gradients_per_update=", run.gradients_per_update()));
  }
  const proto::KSchedule& schedule = job.sync().k_schedule();
  if (schedule.has_adaptive() && !schedule.adaptive().has_max_k() &&
      run.k_schedule().has_adaptive()) {
    kept.push_back(absl::StrCat("sync.k_schedule.adaptive.max_k=",
                                within(run.k_schedule().adaptive().max_k())));
  }
  return kept;
}

// Leaves out what is the number of workers in both jobs, of K and its bound.
void ClearKOfAllWorkers(const proto::Job& job, const proto::Job& other,
                        proto::Sync* sync) {
  if (!KCountsWorkers(job.sync()) || !KCountsWorkers(other.sync())) return;
  const auto in_both = [&](auto k_of) {
    return k_of(job.sync()) == job.cluster().workers() &&
           k_of(other.sync()) == other.cluster().workers();
  };
  if (in_both([](const proto::Sync& of) { return of.k(); })) sync->clear_k();
  if (sync->k_schedule().has_adaptive() && in_both([](const proto::Sync& of) {
        return of.k_schedule().adaptive().max_k();
      })) {
    sync->mutable_k_schedule()->mutable_adaptive()->clear_max_k();
  }
}

}  // namespace

proto::Job DecisiveJob(const proto::Job& job) {
  proto::Job decisive = job;
  decisive.mutable_cluster()->clear_coordinator();
  decisive.clear_output();
  decisive.clear_evaluation();
  decisive.clear_delays();
  decisive.clear_checkpoint();
  // A micro_batch that splits nothing changes nothing.
  if (job.worker().micro_batch() >= job.data().batch_size()) {
    decisive.mutable_worker()->clear_micro_batch();
  }
  decisive.mutable_worker()->clear_gpus();
  if (decisive.data().has_jpeg()) {
    decisive.mutable_data()->mutable_jpeg()->clear_threads();
    decisive.mutable_data()->mutable_jpeg()->clear_contents();
  }
  decisive.mutable_wire()->clear_shared_memory();
  decisive.mutable_sync()->clear_shortage_timeout_s();
  proto::Limits* limits = decisive.mutable_limits();
  limits->clear_lease_s();
  limits->clear_task_deadline_s();
  limits->clear_rejoin_timeout_s();
  limits->clear_start_timeout_s();
  limits->clear_transfer_stall_s();
  limits->clear_partition_timeout_s();
  limits->clear_regroup_timeout_s();
  limits->clear_storage_timeout_s();
  limits->clear_model_process_end_s();
  return decisive;
}

proto::Job LastingJob(const proto::Job& job, const proto::Job& other) {
  proto::Job lasting = DecisiveJob(job);
  lasting.clear_name();
  lasting.clear_stop();
  lasting.clear_limits();
  lasting.mutable_worker()->clear_group();
  lasting.mutable_cluster()->clear_shards();
  lasting.mutable_cluster()->clear_max_workers();
  if (job.data().sharding() != proto::Data::STATIC ||
      other.data().sharding() != proto::Data::STATIC) {
    lasting.mutable_cluster()->clear_workers();
  }
  // A policy that does not use the field still gets its default from the number
  // of workers.
  proto::Sync* sync = lasting.mutable_sync();
  if (sync->policy() == proto::SYNC || sync->policy() == proto::ASYNC) {
    sync->clear_k();
  }
  if (sync->policy() != proto::SYNC) sync->clear_gradients_per_update();
  ClearKOfAllWorkers(job, other, sync);
  return lasting;
}

std::string FormatJob(const proto::Job& job) {
  std::string text;
  google::protobuf::TextFormat::PrintToString(job, &text);
  return text;
}

absl::StatusOr<ResolvedJob> ParseJob(
    const std::string& text, const std::string& name,
    const std::vector<std::string>& overrides) {
  SLUICE_ASSIGN_OR_RETURN(proto::Job job, ParseJobText(text, name));
  for (const std::string& set : overrides) {
    SLUICE_RETURN_IF_ERROR(ApplyOverride(set, &job));
  }
  ResolveDefaults(&job);
  SLUICE_RETURN_IF_ERROR(Invalid(Validate(job)));
  SLUICE_ASSIGN_OR_RETURN(DataShape data, ReadDataShape(job.data()));
  SLUICE_ASSIGN_OR_RETURN(ModelPlan model,
                          PlanModel(job.model(), data.input_shape));
  SLUICE_RETURN_IF_ERROR(
      Invalid(ApplyTensorGroups(job.optimizer(), &model.tensors)));
  if (StageCount(job) > 1) {
    std::vector<std::string> violations;
    ResolveCuts(model, job.mutable_worker()->mutable_group(), &violations);
    SLUICE_RETURN_IF_ERROR(Invalid(violations));
  }
  ParameterLayout layout(model.tensors, job.cluster().shards());
  ResolvedJob resolved{.job = std::move(job),
                       .data = std::move(data),
                       .model = std::move(model),
                       .layout = std::move(layout),
                       .fingerprint = ""};
  SLUICE_RETURN_IF_ERROR(Invalid(ValidateTogether(resolved)));
  SLUICE_RETURN_IF_ERROR(CheckTextLength(resolved.job, name));
  resolved.fingerprint = Fingerprint(resolved);
  return resolved;
}

absl::StatusOr<ResolvedJob> LoadJobToResume(
    const std::string& path, const proto::Job& run,
    const std::vector<std::string>& overrides) {
  SLUICE_ASSIGN_OR_RETURN(const std::string text, ReadText(path));
  SLUICE_ASSIGN_OR_RETURN(proto::Job job, ParseJobText(text, path));
  for (const std::string& set : overrides) {
    SLUICE_RETURN_IF_ERROR(ApplyOverride(set, &job));
  }
  std::vector<std::string> all = overrides;
  for (std::string& kept : KeptFrom(run.sync(), job)) {
    all.push_back(std::move(kept));
  }
  return ParseJob(text, path, all);
}

absl::StatusOr<ResolvedJob> LoadJob(const std::string& path,
                                    const std::vector<std::string>& overrides) {
  SLUICE_ASSIGN_OR_RETURN(const std::string text, ReadText(path));
  return ParseJob(text, path, overrides);
}

}  // namespace sluice
