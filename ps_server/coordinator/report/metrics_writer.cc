#include "ps_server/coordinator/report/metrics_writer.h"

#include <cstdint>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "ps_server/coordinator/report/job_state_json.h"

namespace sluice {
namespace {

std::vector<int64_t> WithoutZerosAtItsEnd(std::vector<int64_t> counts) {
  while (!counts.empty() && counts.back() == 0) counts.pop_back();
  return counts;
}

}  // namespace

std::string MetricsLine(const JobState& state, const Rates& rates,
                        const std::optional<Evaluation>& fresh) {
  nlohmann::ordered_json line = {
      {"seconds", absl::ToDoubleSeconds(state.running)},
      {"epoch", state.epoch},
      {"version", state.version.value()},
      {"loss", state.loss},
      {"learning_rate", state.learning_rate},
      {"k", state.k},
      {"updates_per_second", rates.updates_per_second},
      {"samples_per_second", rates.samples_per_second},
      {"mean_staleness", state.mean_staleness},
  };
  line["staleness_histogram"] = WithoutZerosAtItsEnd(state.staleness_histogram);
  PutLogged("logged", state.logged, &line);
  PutCounts(state, &line);
  if (fresh.has_value()) {
    line["test_version"] = fresh->version.value();
    line["test_loss"] = fresh->loss;
    if (fresh->accuracy.has_value()) line["test_accuracy"] = *fresh->accuracy;
    PutLogged("test_logged", fresh->logged, &line);
  }
  return line.dump();
}

absl::StatusOr<std::unique_ptr<MetricsWriter>> MetricsWriter::Create(
    const std::string& path) {
  std::ofstream out(path, std::ios::app);
  if (!out) {
    return absl::UnavailableError(absl::StrCat(path, ": cannot be created"));
  }
  return std::unique_ptr<MetricsWriter>(
      new MetricsWriter(path, std::move(out)));
}

MetricsWriter::MetricsWriter(std::string path, std::ofstream out)
    : path_(std::move(path)), out_(std::move(out)) {}

absl::Status MetricsWriter::Write(const std::string& line) {
  std::error_code ignored;
  const auto size = std::filesystem::file_size(path_, ignored);
  out_ << line << std::endl;
  if (out_) return absl::OkStatus();
  // What has been written of the line must not stay before the next one.
  out_.close();
  std::filesystem::resize_file(path_, size, ignored);
  out_.open(path_, std::ios::app);
  return absl::UnavailableError(absl::StrCat(path_, ": cannot be written"));
}

}  // namespace sluice
