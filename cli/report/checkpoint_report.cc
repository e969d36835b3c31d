#include "cli/report/checkpoint_report.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "cli/run_folder.h"
#include "common/formats/safetensors.h"
#include "common/status_macros.h"
#include "common/telemetry/counter_table.h"
#include "common/telemetry/json_text.h"
#include "ps_server/checkpoint/manifest.h"
#include "ps_server/coordinator/core/counters.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

int64_t Bytes(const proto::CheckpointManifest& manifest) {
  int64_t bytes = 0;
  for (const proto::CheckpointFile& file : manifest.file()) {
    bytes += file.bytes();
  }
  return bytes;
}

std::string Samples(const proto::TrainingState& state) {
  const int64_t samples =
      CountersFrom(kRunCounters, state.counters()).samples_applied;
  std::string text =
      absl::StrCat(samples, " applied; every task's mini-batches below ",
                   "number ", state.low_water_mark());
  if (!state.exception().empty()) {
    absl::StrAppend(&text, ", and ", absl::StrJoin(state.exception(), ", "));
  }
  return text;
}

// Where the file of shard `i` is, if it is on a disk of that shard's own.
std::string Place(const Checkpoint& checkpoint, int i) {
  const proto::CheckpointFile& file = checkpoint.manifest().file(i);
  if (file.path().empty()) return "";
  return absl::StrCat(", at ", file.host(), ":", file.path(),
                      checkpoint.IsHere(i) ? "" : ", not on this host");
}

absl::Status CheckMayReplace(const std::string& path) {
  std::error_code error;
  const fs::file_type type = fs::status(path, error).type();
  if (type == fs::file_type::not_found || type == fs::file_type::regular) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      path, ": is ",
      type == fs::file_type::directory   ? "a folder"
      : type == fs::file_type::fifo      ? "a pipe"
      : type == fs::file_type::socket    ? "a socket"
      : type == fs::file_type::character ? "a device"
      : type == fs::file_type::block     ? "a device"
                                         : "no file that can be looked at",
      ", expected a regular file or none"));
}

// Outside the folder of the checkpoint and, where it is a run's, its siblings.
absl::Status CheckIsElsewhere(const std::string& path,
                              const Checkpoint& checkpoint) {
  std::error_code error;
  fs::path read = fs::weakly_canonical(checkpoint.folder(), error);
  if (read.parent_path().filename() == "checkpoints") read = read.parent_path();
  const fs::path folder =
      fs::weakly_canonical(fs::absolute(path, error).parent_path(), error);
  if (std::mismatch(read.begin(), read.end(), folder.begin(), folder.end())
          .first != read.end()) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat(path, ": lies in ", read.string(),
                   ", which is read: expected a file elsewhere"));
}

}  // namespace

absl::StatusOr<Checkpoint> FindCheckpoint(
    const std::string& path, std::vector<std::string>* passed_over) {
  SLUICE_RETURN_IF_ERROR(CheckMayRead(path));
  const auto has = [&path](const char* name) {
    std::error_code error;
    return std::filesystem::exists(absl::StrCat(path, "/", name), error);
  };
  if (!has("checkpoints")) {
    if (!has("")) {
      return absl::NotFoundError(absl::StrCat(
          path, ": is not there, expected a checkpoint's folder or a run's"));
    }
    if (!has("manifest")) {
      return absl::NotFoundError(absl::StrCat(
          path,
          ": has neither a manifest, as a checkpoint's folder, nor "
          "checkpoints, as that of a run that has written some"));
    }
    SLUICE_ASSIGN_OR_RETURN(Checkpoint checkpoint, Checkpoint::Open(path));
    SLUICE_RETURN_IF_ERROR(checkpoint.Verify());
    return checkpoint;
  }
  SLUICE_ASSIGN_OR_RETURN(NewestCheckpoint newest, OpenNewestCheckpoint(path));
  for (const absl::Status& status : newest.refused) {
    passed_over->push_back(std::string(status.message()));
  }
  if (newest.checkpoint.has_value()) return *std::move(newest.checkpoint);
  return absl::NotFoundError(
      absl::StrCat(path, ": has no whole checkpoint, expected one"));
}

std::string DescribeCheckpoint(const Checkpoint& checkpoint) {
  const proto::CheckpointManifest& manifest = checkpoint.manifest();
  const ParameterLayout layout = LayoutOf(manifest);
  std::string text = absl::StrFormat(
      "checkpoint   %s, whole\n"
      "version      %d of generation %d\n"
      "job          %s\n"
      "samples      %s\n"
      "model        %d weights in %d tensors, layout %s\n"
      "arrays       %s\n"
      "files        %d bytes in %d, chunks of %d floats\n",
      checkpoint.folder(), manifest.version(), manifest.generation(),
      manifest.job_fingerprint(), Samples(manifest.state()), layout.size(),
      layout.tensors().size(), manifest.layout_fingerprint(),
      absl::StrJoin(manifest.array(), ", "), Bytes(manifest),
      manifest.file_size(), manifest.chunk_floats());
  for (int i = 0; i < manifest.file_size(); ++i) {
    const proto::CheckpointFile& file = manifest.file(i);
    absl::StrAppendFormat(&text, "  %s  %d bytes, weights %d to %d%s\n",
                          file.name(), file.bytes(), file.begin(), file.end(),
                          Place(checkpoint, i));
  }
  absl::StrAppend(&text, "tensors\n");
  for (const TensorSpec& tensor : layout.tensors()) {
    absl::StrAppendFormat(&text, "  %s  (%s)\n", tensor.name,
                          absl::StrJoin(tensor.shape, ", "));
  }
  return text;
}

std::string CheckpointJson(const Checkpoint& checkpoint) {
  const proto::CheckpointManifest& manifest = checkpoint.manifest();
  const proto::TrainingState& state = manifest.state();
  nlohmann::ordered_json json;
  json["folder"] = checkpoint.folder();
  json["generation"] = manifest.generation();
  json["version"] = manifest.version();
  json["job_fingerprint"] = manifest.job_fingerprint();
  json["layout_fingerprint"] = manifest.layout_fingerprint();
  json["samples_applied"] =
      CountersFrom(kRunCounters, state.counters()).samples_applied;
  json["low_water_mark"] = state.low_water_mark();
  json["exceptions"] =
      std::vector<int64_t>(state.exception().begin(), state.exception().end());
  json["arrays"] = std::vector<std::string>(manifest.array().begin(),
                                            manifest.array().end());
  json["bytes"] = Bytes(manifest);
  json["files"] = nlohmann::json::array();
  for (int i = 0; i < manifest.file_size(); ++i) {
    const proto::CheckpointFile& file = manifest.file(i);
    json["files"].push_back({{"name", file.name()},
                             {"bytes", file.bytes()},
                             {"begin", file.begin()},
                             {"end", file.end()}});
    if (file.path().empty()) continue;
    json["files"].back()["host"] = file.host();
    json["files"].back()["path"] = file.path();
    json["files"].back()["here"] = checkpoint.IsHere(i);
  }
  json["tensors"] = nlohmann::ordered_json::object();
  for (const proto::CheckpointTensor& tensor : manifest.tensor()) {
    json["tensors"][tensor.name()] =
        std::vector<int64_t>(tensor.shape().begin(), tensor.shape().end());
  }
  return JsonText(json, 2) + "\n";
}

absl::Status ExportWeights(const Checkpoint& checkpoint,
                           const std::string& path) {
  SLUICE_RETURN_IF_ERROR(CheckMayReplace(path));
  SLUICE_RETURN_IF_ERROR(CheckIsElsewhere(path, checkpoint));
  const ParameterLayout layout = LayoutOf(checkpoint.manifest());
  SLUICE_ASSIGN_OR_RETURN(const std::vector<float> weights,
                          checkpoint.Read("weights", {0, layout.size()}));
  return WriteSafetensors(path, layout, weights);
}

}  // namespace sluice
