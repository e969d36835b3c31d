#include "cli/report/job/profile.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/job/group.h"
#include "common/job/stage_plan.h"
#include "sim/theory/pipeline_time.h"

namespace sluice {
namespace {

using Pipeline = ProfileReport::Pipeline;

double SecondsOf(const LayerTime& time) { return time.forward + time.backward; }

// Of a micro-batch, in one process.
double SecondsOf(const std::vector<LayerTime>& times) {
  double seconds = 0;
  for (const LayerTime& time : times) seconds += SecondsOf(time);
  return seconds;
}

// What each stage of `job` takes. A cut within a part, before a layer without
// weights, counts as one behind that part.
std::vector<LayerTime> TimesOfStages(const ResolvedJob& job,
                                     const std::vector<LayerTime>& parts) {
  std::vector<LayerTime> stages;
  for (const ModelStage& stage : StagesOf(job)) {
    LayerTime time = {.part = stage};
    for (const LayerTime& part : parts) {
      if (part.part.begin < stage.begin || part.part.begin >= stage.end) {
        continue;
      }
      time.forward += part.forward;
      time.backward += part.backward;
    }
    stages.push_back(time);
  }
  return stages;
}

Pipeline MakePipeline(const ResolvedJob& job, int passes,
                      const std::vector<LayerTime>& parts) {
  const auto& cuts = job.job.worker().group().cuts();
  Pipeline pipeline = {.cuts = {cuts.begin(), cuts.end()},
                       .stages = TimesOfStages(job, parts)};
  const double whole = SecondsOf(parts);
  double largest = 0;
  std::vector<PipelineTime::Stage> shares;
  for (const LayerTime& stage : pipeline.stages) {
    largest = std::max(largest, SecondsOf(stage));
    const int number = static_cast<int>(shares.size());
    shares.push_back({.forward = stage.forward / whole,
                      .backward = stage.backward / whole,
                      .replicas = ReplicasOf(job.job, number)});
  }
  const TaskUse task =
      PipelineTime(std::move(shares), passes, /*latency=*/0, SlotsOf(job.job))
          .Task(passes * whole);
  pipeline.balance =
      whole / static_cast<double>(pipeline.stages.size()) / largest;
  pipeline.bubble = task.Bubble();
  pipeline.limit = passes * whole / task.period;
  return pipeline;
}

// `job`, cut where its stages take times as equal as can be.
ResolvedJob CutByTime(const ResolvedJob& job,
                      const std::vector<LayerTime>& parts) {
  std::vector<double> costs(job.model.layers.size());
  for (const LayerTime& part : parts) costs[part.part.begin] = SecondsOf(part);
  ResolvedJob cut = job;
  cut.job.mutable_worker()->mutable_group()->clear_cuts();
  for (const std::string& name :
       CutsByCost(job.model, costs, StageCount(job.job))) {
    cut.job.mutable_worker()->mutable_group()->add_cuts(name);
  }
  return cut;
}

std::string NameOf(const ResolvedJob& job, const ModelStage& part) {
  const std::string& first = job.model.layers[part.begin].name;
  const std::string& last = job.model.layers[part.end - 1].name;
  return first == last ? first : absl::StrCat(first, " to ", last);
}

nlohmann::ordered_json ToJson(const ResolvedJob& job,
                              const std::vector<LayerTime>& times) {
  auto json = nlohmann::ordered_json::array();
  for (const LayerTime& time : times) {
    json.push_back({{"layers", NameOf(job, time.part)},
                    {"forward_seconds", time.forward},
                    {"backward_seconds", time.backward}});
  }
  return json;
}

nlohmann::ordered_json ToJson(const ResolvedJob& job,
                              const std::optional<Pipeline>& pipeline) {
  if (!pipeline.has_value()) return nullptr;
  return {{"cuts", pipeline->cuts},
          {"stages", ToJson(job, pipeline->stages)},
          {"balance", pipeline->balance},
          {"bubble", pipeline->bubble},
          {"limit", pipeline->limit}};
}

void PrintTimes(const ResolvedJob& job, const std::string& title,
                const std::vector<LayerTime>& times, std::ostream& out) {
  size_t width = title.size();
  for (const LayerTime& time : times) {
    width = std::max(width, NameOf(job, time.part).size());
  }
  out << absl::StreamFormat("%-*s  %12s  %12s\n", width, title, "forward",
                            "backward");
  for (const LayerTime& time : times) {
    out << absl::StreamFormat("%-*s  %9.3f ms  %9.3f ms\n", width,
                              NameOf(job, time.part), 1e3 * time.forward,
                              1e3 * time.backward);
  }
}

void PrintPipeline(const ResolvedJob& job, const std::string& title,
                   const Pipeline& pipeline, std::ostream& out) {
  out << "\n";
  PrintTimes(job, title, pipeline.stages, out);
  out << absl::StreamFormat(
      "at most %.2f times one process: balance %.2f, bubble %.2f\n",
      pipeline.limit, pipeline.balance, pipeline.bubble);
}

// What to write into a job, so that virtual time goes as measured.
std::string Delays(const ProfileReport& report) {
  std::string text = absl::StrFormat(
      "delays { compute { constant { ms: %.4g } }", 1e3 * report.batch_seconds);
  if (report.by_time.has_value()) {
    for (const LayerTime& stage : report.by_time->stages) {
      absl::StrAppendFormat(&text, " stage { forward: %.4g backward: %.4g }",
                            1e3 * stage.forward, 1e3 * stage.backward);
    }
  }
  return text + " }";
}

}  // namespace

ProfileReport MakeProfileReport(const ResolvedJob& job,
                                std::vector<LayerTime> parts) {
  const int batch = job.job.data().batch_size();
  ProfileReport report;
  report.samples = std::min<int>(batch, job.job.worker().micro_batch());
  report.passes = (batch + report.samples - 1) / report.samples;
  report.parts = std::move(parts);
  report.batch_seconds = report.passes * SecondsOf(report.parts);
  if (StageCount(job.job) == 1) return report;
  report.of_job = MakePipeline(job, report.passes, report.parts);
  report.by_time =
      MakePipeline(CutByTime(job, report.parts), report.passes, report.parts);
  return report;
}

void PrintProfile(const ResolvedJob& job, const ProfileReport& report,
                  std::ostream& out) {
  out << absl::StreamFormat(
      "\nprofile:     a micro-batch of %d samples in one process; a mini-batch "
      "of %d of them takes %.4g ms\n",
      report.samples, report.passes, 1e3 * report.batch_seconds);
  PrintTimes(job, "layers", report.parts, out);
  if (report.by_time.has_value()) {
    PrintPipeline(job, "stages of the job", *report.of_job, out);
    PrintPipeline(job, "stages cut by time", *report.by_time, out);
    out << absl::StreamFormat(
        "\nworker { group { pipeline_stages: %d cuts: [\"%s\"] } }\n",
        report.by_time->stages.size(),
        absl::StrJoin(report.by_time->cuts, "\", \""));
  }
  out << Delays(report) << "\n";
}

nlohmann::ordered_json ProfileToJson(const ResolvedJob& job,
                                     const ProfileReport& report) {
  return {{"samples", report.samples},
          {"passes", report.passes},
          {"batch_seconds", report.batch_seconds},
          {"parts", ToJson(job, report.parts)},
          {"of_job", ToJson(job, report.of_job)},
          {"by_time", ToJson(job, report.by_time)}};
}

}  // namespace sluice
