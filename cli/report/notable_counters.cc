#include "cli/report/notable_counters.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/string_view.h"
#include "ps_server/coordinator/core/counters.h"

namespace sluice {
namespace {

constexpr absl::string_view kWithAPlaceOfTheirOwn[] = {
    "samples",           "gradients.applied",   "gradients.cancelled",
    "gradients.dropped", "gradients.rejected",  "gradients.lost",
    "checkpoints.late",  "checkpoints.written", "checkpoints.failed",
};

std::string InWords(const std::string& name) {
  for (const auto& row : kRunCounters) {
    if (name == row.name) return row.help;
  }
  for (const auto& row : kCheckpointCounters) {
    if (name == row.name) return row.help;
  }
  return name;
}

}  // namespace

std::vector<std::pair<std::string, int64_t>> NotableCounters(
    const CounterMap& counters) {
  std::vector<std::pair<std::string, int64_t>> notable;
  for (const auto& [name, value] : counters) {
    const bool elsewhere =
        std::ranges::find(kWithAPlaceOfTheirOwn, absl::string_view(name)) !=
        std::end(kWithAPlaceOfTheirOwn);
    if (value != 0 && !elsewhere) notable.emplace_back(InWords(name), value);
  }
  return notable;
}

}  // namespace sluice
