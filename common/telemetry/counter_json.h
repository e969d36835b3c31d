#ifndef SLUICE_COMMON_TELEMETRY_COUNTER_JSON_H_
#define SLUICE_COMMON_TELEMETRY_COUNTER_JSON_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "common/telemetry/counter_table.h"
#include "nlohmann/json.hpp"

namespace sluice {

// Where a counter is in an object: "/gradients/applied".
inline std::string CounterPointer(absl::string_view name) {
  return absl::StrCat("/", absl::StrReplaceAll(name, {{".", "/"}}));
}

// Sets every counter of the table in the object `json`: "gradients.applied" as
// the member `applied` of the object `gradients`, which is made where it is
// missing. REQUIRES: what bears the name of such an object is one, or null.
template <typename Counters, size_t n>
void PutCountersInJson(const CounterRow<Counters> (&table)[n],
                       const Counters& counters, nlohmann::ordered_json* json) {
  for (const CounterRow<Counters>& row : table) {
    (*json)[nlohmann::ordered_json::json_pointer(CounterPointer(row.name))] =
        counters.*row.member;
  }
}

// The counters of the table that the object `json` has as numbers; the others
// are 0.
template <typename Counters, size_t n, typename Json>
Counters CountersFromJson(const CounterRow<Counters> (&table)[n],
                          const Json& json) {
  Counters counters;
  for (const CounterRow<Counters>& row : table) {
    const typename Json::json_pointer place(CounterPointer(row.name));
    if (!json.contains(place) || !json.at(place).is_number()) continue;
    counters.*row.member = json.at(place).template get<int64_t>();
  }
  return counters;
}

}  // namespace sluice

#endif  // SLUICE_COMMON_TELEMETRY_COUNTER_JSON_H_
