#include "cli/run_summary.h"

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cli/progress.h"

namespace sluice {
namespace {

using nlohmann::json;

// A number of the summary; NaN where it has none (accuracy of a regression).
double Number(const json& summary, const char* name) {
  const auto found = summary.find(name);
  if (found == summary.end() || !found->is_number()) return std::nan("");
  return found->get<double>();
}

std::string DescribeTest(const json& summary) {
  std::string text;
  const double accuracy = Number(summary, "test_accuracy");
  const double loss = Number(summary, "test_loss");
  const double version = Number(summary, "version");
  if (!std::isnan(accuracy)) {
    absl::StrAppendFormat(
        &text, "test accuracy %.4f (whole test split, version %.0f)\n",
        accuracy, version);
  }
  if (!std::isnan(loss)) {
    absl::StrAppendFormat(&text, "test loss %.4g\n", loss);
  }
  return text;
}

}  // namespace

std::string DescribeSummary(const std::string& run_dir) {
  const std::string path = absl::StrCat(run_dir, "/summary.json");
  std::ifstream file(path);
  const json summary = json::parse(file, nullptr, /*allow_exceptions=*/false);
  if (!summary.is_object()) {
    return absl::StrCat(path, " cannot be read\n");
  }
  std::string text = DescribeTest(summary);
  absl::StrAppendFormat(&text, "%.0f updates in %s, %.0f samples/s\n",
                        Number(summary, "version"),
                        FormatSeconds(Number(summary, "seconds")),
                        Number(summary, "samples_per_second"));
  const json gradients = summary.value("gradients", json::object());
  for (const char* outcome : {"applied", "cancelled", "dropped", "rejected"}) {
    absl::StrAppendFormat(&text, "%s%s %.0f",
                          text.back() == '\n' ? "gradients: " : ", ", outcome,
                          Number(gradients, outcome));
  }
  absl::StrAppend(&text, "\nresults in ", run_dir, "\n");
  return text;
}

}  // namespace sluice
