#include "ps_server/coordinator/report/metrics_writer.h"

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "common/telemetry/json_text.h"
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
  return JsonText(line);
}

absl::StatusOr<std::unique_ptr<MetricsWriter>> MetricsWriter::Create(
    const std::string& path) {
  SLUICE_ASSIGN_OR_RETURN(AppendedFile file, AppendedFile::Open(path));
  return std::unique_ptr<MetricsWriter>(new MetricsWriter(std::move(file)));
}

absl::Status MetricsWriter::Write(const std::string& line) {
  return file_.Append(absl::StrCat(line, "\n"));
}

}  // namespace sluice
