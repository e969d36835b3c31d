#include "cli/report/replay_report.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/telemetry/json_text.h"
#include "nlohmann/json.hpp"

namespace sluice {
namespace {

const char* Verdict(const ReplayReport& report) {
  if (!report.same()) return "NOT the same\n";
  if (report.compared_weights()) return "the same bits\n";
  return "the same losses; of the weights the run has recorded nothing\n";
}

}  // namespace

std::string DescribeReplay(const ReplayReport& report) {
  std::string text = absl::StrFormat(
      "recomputed %d updates from %d gradients, compared %d digests\n"
      "weights %s of version %d\n",
      report.version.value(), report.gradients, report.digests,
      report.weights_sha256, report.version.value());
  if (report.recorded_sha256.empty()) {
    absl::StrAppend(&text, "the run has no hash of this version's weights\n");
  } else if (report.recorded_sha256 != report.weights_sha256) {
    absl::StrAppend(&text, "recorded ", report.recorded_sha256, "\n");
  }
  const ReplayDifference& difference = report.difference;
  if (difference.update.has_value()) {
    absl::StrAppend(&text, "differs in the update to version ",
                    difference.update->value(), ": ", difference.gradient,
                    "\n");
  }
  if (difference.version.has_value()) {
    absl::StrAppend(&text, "differs at version ", difference.version->value(),
                    " in ", difference.tensor, "; version ",
                    difference.agrees.value(), " agrees\n");
  }
  if (report.torn.has_value()) {
    absl::StrAppend(&text, report.torn->ToString(), "\n");
  }
  absl::StrAppend(&text, Verdict(report));
  return text;
}

std::string ReplayJson(const ReplayReport& report) {
  nlohmann::ordered_json json = {
      {"same", report.same()},
      {"version", report.version.value()},
      {"gradients", report.gradients},
      {"digests", report.digests},
      {"weights_sha256", report.weights_sha256},
      {"recorded_sha256", nullptr},
      {"first_update", nullptr},
      {"gradient", nullptr},
      {"first_version", nullptr},
      {"tensor", nullptr},
      {"agrees", report.difference.agrees.value()},
      {"torn", nullptr},
  };
  if (!report.recorded_sha256.empty()) {
    json["recorded_sha256"] = report.recorded_sha256;
  }
  const ReplayDifference& difference = report.difference;
  if (difference.update.has_value()) {
    json["first_update"] = difference.update->value();
    json["gradient"] = difference.gradient;
  }
  if (difference.version.has_value()) {
    json["first_version"] = difference.version->value();
    json["tensor"] = difference.tensor;
  }
  if (report.torn.has_value()) {
    json["torn"] = {{"file", report.torn->path},
                    {"offset", report.torn->offset},
                    {"bytes", report.torn->bytes}};
  }
  return JsonText(json, 2) + "\n";
}

}  // namespace sluice
