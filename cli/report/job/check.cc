#include "cli/report/job/check.h"

#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "cli/report/job/check_report.h"
#include "common/job/job_counts.h"
#include "common/process/descriptor_limit.h"
#include "common/status_macros.h"
#include "common/telemetry/json_text.h"
#include "nlohmann/json.hpp"

namespace sluice {
namespace {

// Keeps the order in which names are added.
using Json = nlohmann::ordered_json;

std::string FormatShape(const std::vector<int64_t>& shape) {
  return absl::StrCat("(", absl::StrJoin(shape, ", "), ")");
}

// "512 B", "241.0 KiB", "3.2 GiB".
std::string FormatBytes(int64_t bytes) {
  if (bytes < 1024) return absl::StrCat(bytes, " B");
  static constexpr const char* kUnits[] = {"KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes) / 1024;
  int unit = 0;
  while (value >= 1024 && unit < 3) {
    value /= 1024;
    ++unit;
  }
  return absl::StrFormat("%.1f %s", value, kUnits[unit]);
}

std::string WhereWeightsComeFrom(const proto::Job& job) {
  if (!job.model().init_from().empty()) return job.model().init_from();
  return absl::StrCat("the layers' initializers with seed ", job.seed());
}

Json JobToJson(const proto::Job& job) {
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  std::string text;
  SLUICE_CHECK(
      google::protobuf::util::MessageToJsonString(job, &text, options).ok());
  return Json::parse(text);
}

Json LayoutToJson(const ResolvedJob& job, const CheckReport& report) {
  Json tensors = Json::array();
  for (size_t i = 0; i < job.layout.tensors().size(); ++i) {
    const TensorSpec& tensor = job.layout.tensors()[i];
    tensors.push_back({{"name", tensor.name},
                       {"shape", tensor.shape},
                       {"offset", tensor.offset},
                       {"size", tensor.size},
                       {"statistic", tensor.is_statistic()},
                       {"learning_rate_factor", tensor.factors.rate},
                       {"weight_decay_factor", tensor.factors.decay},
                       {"shards", report.tensor_shards[i]}});
  }
  return tensors;
}

Json ShardsToJson(const ResolvedJob& job, const CheckReport& report) {
  Json shards = Json::array();
  for (int s = 0; s < job.layout.shards(); ++s) {
    const ParameterRange range = job.layout.range(ShardId(s));
    const ShardMemory& memory = report.shards[s];
    shards.push_back({{"shard", s},
                      {"begin", range.begin},
                      {"end", range.end},
                      {"memory_bytes",
                       {{"weights", memory.weights},
                        {"optimizer_state", memory.optimizer_state},
                        {"staged_gradients", memory.staged_gradients},
                        {"total", memory.total()}}}});
  }
  return shards;
}

Json ToJson(const ResolvedJob& job, const CheckReport& report,
            const ProfileReport* profile) {
  Json json;
  json["name"] = job.job.name();
  json["fingerprint"] = job.fingerprint;
  json["job"] = JobToJson(job.job);
  json["data"] = {{"train_samples", job.data.train_samples},
                  {"test_samples", job.data.test_samples},
                  {"classes", job.data.classes},
                  {"input_shape", job.data.input_shape},
                  {"batches_per_epoch", report.batches_per_epoch}};
  json["weights"] = job.layout.size();
  json["tensors"] = LayoutToJson(job, report);
  json["shards"] = ShardsToJson(job, report);
  json["checkpoint_bytes"] = report.checkpoint_bytes;
  json["worker"]["memory_bytes"] = {
      {"weights", report.worker.weights},
      {"gradient", report.worker.gradient},
      {"activations", report.worker.activations},
      {"batch", report.worker.batch},
      {"training_data", report.worker.training_data},
      {"total", report.worker.total()}};
  for (const MemberReport& member : report.members) {
    json["worker"]["members"].push_back(
        {{"stage", member.stage},
         {"layers", member.layers},
         {"floats", member.floats},
         {"multiply_adds", member.multiply_adds},
         {"memory_bytes", member.memory.total()}});
  }
  if (report.evaluator_bytes > 0) {
    json["evaluator"]["memory_bytes"] = report.evaluator_bytes;
  }
  json["file_descriptors"] = {{"lead", report.descriptors.lead},
                              {"shard", report.descriptors.shard},
                              {"worker", report.descriptors.worker},
                              {"here_at_most", GetDescriptorLimit().hard}};
  json["update"] = {{"gradients", report.update.gradients},
                    {"least_gradients", report.update.least_gradients},
                    {"pulls", report.update.pulls},
                    {"pull_bytes", report.update.pull_bytes},
                    {"push_bytes", report.update.push_bytes},
                    {"updates_per_epoch", report.update.per_epoch},
                    {"most_updates_per_epoch", report.update.most_per_epoch}};
  json["learning_rate"] = {
      {"first", report.rate.first},
      {"least_after_warmup", report.rate.least_after_warmup},
      {"after_warmup", report.rate.after_warmup}};
  json["expected_staleness"] = report.expected_staleness;
  json["staleness_is_bounded"] = report.staleness_is_bounded;
  json["warnings"] = report.warnings;
  if (profile != nullptr) json["profile"] = ProfileToJson(job, *profile);
  return json;
}

std::string KindOf(const TensorSpec& tensor) {
  if (tensor.is_statistic()) return "running statistic";
  if (tensor.factors.rate == 1) return "trained";
  return absl::StrCat("at rate x ", tensor.factors.rate);
}

void PrintTensors(const ResolvedJob& job, const CheckReport& report,
                  std::ostream& out) {
  size_t name_width = 6;
  size_t shape_width = 5;
  for (const TensorSpec& tensor : job.layout.tensors()) {
    name_width = std::max(name_width, tensor.name.size());
    shape_width = std::max(shape_width, FormatShape(tensor.shape).size());
  }
  out << absl::StreamFormat("%-*s  %-*s  %12s  %12s  %-17s  %s\n", name_width,
                            "tensor", shape_width, "shape", "offset", "floats",
                            "kind", "shards");
  for (size_t i = 0; i < job.layout.tensors().size(); ++i) {
    const TensorSpec& tensor = job.layout.tensors()[i];
    out << absl::StreamFormat(
        "%-*s  %-*s  %12d  %12d  %-17s  %s\n", name_width, tensor.name,
        shape_width, FormatShape(tensor.shape), tensor.offset, tensor.size,
        KindOf(tensor), absl::StrJoin(report.tensor_shards[i], ", "));
  }
  out << job.layout.size() << " weights, "
      << FormatBytes(job.layout.size() * sizeof(float))
      << ", at version 0 from " << WhereWeightsComeFrom(job.job) << "\n\n";
}

void PrintMembers(const std::vector<MemberReport>& members, std::ostream& out) {
  size_t width = 6;
  for (const MemberReport& member : members) {
    width = std::max(width, member.layers.size());
  }
  out << absl::StreamFormat("%-9s  %-*s  %12s  %14s  %12s\n", "member", width,
                            "layers", "floats", "multiply-adds", "memory");
  for (size_t m = 0; m < members.size(); ++m) {
    out << absl::StreamFormat("%-9d  %-*s  %12d  %14.0f  %12s\n", m, width,
                              members[m].layers, members[m].floats,
                              members[m].multiply_adds,
                              FormatBytes(members[m].memory.total()));
  }
  out << "\n";
}

void PrintMemory(const ResolvedJob& job, const CheckReport& report,
                 std::ostream& out) {
  out << absl::StreamFormat("%-9s  %-25s  %12s  %12s  %12s  %12s\n", "memory",
                            "floats", "weights", "optimizer", "staged",
                            "total");
  for (int s = 0; s < job.layout.shards(); ++s) {
    const ParameterRange range = job.layout.range(ShardId(s));
    const ShardMemory& memory = report.shards[s];
    out << absl::StreamFormat(
        "shard %-3d  %-25s  %12s  %12s  %12s  %12s\n", s,
        absl::StrCat("[", range.begin, ", ", range.end, ")"),
        FormatBytes(memory.weights), FormatBytes(memory.optimizer_state),
        FormatBytes(memory.staged_gradients), FormatBytes(memory.total()));
  }
  if (!report.members.empty()) {
    out << "\n";
    PrintMembers(report.members, out);
    if (report.evaluator_bytes > 0) {
      out << "the evaluator: " << FormatBytes(report.evaluator_bytes) << "\n\n";
    }
    return;
  }
  const WorkerMemory& worker = report.worker;
  out << "each worker: " << FormatBytes(worker.total()) << " = weights "
      << FormatBytes(worker.weights) << " + gradient "
      << FormatBytes(worker.gradient) << " + activations "
      << FormatBytes(worker.activations) << " + batch "
      << FormatBytes(worker.batch) << " + training data "
      << FormatBytes(worker.training_data) << "\n\n";
}

// "2", or "1 to 2" where they differ.
std::string FormatRange(const std::string& least, const std::string& most) {
  return least == most ? most : absl::StrCat(least, " to ", most);
}

void PrintUpdates(const ResolvedJob& job, const CheckReport& report,
                  std::ostream& out) {
  const proto::Job& j = job.job;
  const UpdateCost& update = report.update;
  out << "an epoch:    " << job.data.train_samples << " samples, "
      << report.batches_per_epoch << " mini-batches of "
      << j.data().batch_size() << ", "
      << FormatRange(absl::StrFormat("%.1f", update.per_epoch),
                     absl::StrFormat("%.1f", update.most_per_epoch))
      << " updates\n";
  if (j.data().has_jpeg() && !j.data().jpeg().has_contents()) {
    out << "the images:  on a host without them, add --set "
           "'data.jpeg.contents={train_samples: "
        << job.data.train_samples << " test_samples: " << job.data.test_samples
        << " classes: " << job.data.classes << "}'\n";
  }
  const bool changes = update.least_gradients < update.gradients;
  out << "an update:   "
      << FormatRange(absl::StrCat(update.least_gradients),
                     absl::StrCat(update.gradients))
      << " gradients under " << proto::Policy_Name(j.sync().policy()) << " by "
      << MostWorkers(j.cluster()) << " workers; "
      << (changes ? "at most, " : "") << "pull "
      << FormatBytes(update.pull_bytes) << " (" << update.pulls
      << " times the weights), push " << FormatBytes(update.push_bytes) << " ("
      << update.gradients << ")\n";
  out << "rate:        " << report.rate.first << " at the first update, "
      << FormatRange(absl::StrCat(report.rate.least_after_warmup),
                     absl::StrCat(report.rate.after_warmup))
      << " after warm-up\n";
  out << "staleness:   " << (report.staleness_is_bounded ? "at most " : "")
      << report.expected_staleness
      << " versions expected with workers of equal speed\n";
  for (const std::string& warning : report.warnings) {
    out << "warning:     " << warning << "\n";
  }
}

// How large a checkpoint is, and where its parts must be reached.
void PrintCheckpoints(const ResolvedJob& job, const CheckReport& report,
                      std::ostream& out) {
  if (report.checkpoint_bytes == 0) return;
  out << "checkpoints: " << FormatBytes(report.checkpoint_bytes) << " each, "
      << job.job.checkpoint().keep() << " are kept";
  if (job.layout.shards() > 1) {
    out << "; all shards must reach the run folder, or each has a disk of its "
           "own (ps_server --checkpoint-dir), and goes on only where its files "
           "are";
  }
  out << "\n";
}

}  // namespace

void PrintDescriptors(const DescriptorNeeds& needs, std::ostream& out) {
  const int64_t limit = GetDescriptorLimit().hard;
  out << "descriptors: " << needs.lead << " files and connections for shard 0, "
      << needs.shard << " for each other shard, " << needs.worker
      << " for each worker; a process here may have " << limit
      << " (ulimit -Hn)\n";
  if (needs.most() <= limit) return;
  out << "warning:     a process that needs more refuses who connects: raise "
         "the limit (systemd: LimitNOFILE)\n";
}

void PrintCheck(const ResolvedJob& job, const ProfileReport* profile, bool json,
                std::ostream& out) {
  const CheckReport report = MakeCheckReport(job);
  if (json) {
    out << JsonText(ToJson(job, report, profile), 2) << "\n";
    return;
  }
  out << FormatJob(job.job) << "\nfingerprint: " << job.fingerprint << "\n\n";
  PrintTensors(job, report, out);
  PrintMemory(job, report, out);
  PrintDescriptors(report.descriptors, out);
  PrintCheckpoints(job, report, out);
  PrintUpdates(job, report, out);
  if (profile != nullptr) PrintProfile(job, *profile, out);
}

}  // namespace sluice
