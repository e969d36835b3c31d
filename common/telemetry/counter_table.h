#ifndef SLUICE_COMMON_TELEMETRY_COUNTER_TABLE_H_
#define SLUICE_COMMON_TELEMETRY_COUNTER_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

// A counter is one row of a table, and whatever shows counters walks the table:
//
//   struct ShardCounters {
//     int64_t pulls_served = 0;
//   };
//   inline constexpr CounterRow<ShardCounters> kShardCounters[] = {
//       {"pulls_served", "pulls sent whole", &ShardCounters::pulls_served},
//   };
//   static_assert(IsWhole(kShardCounters));
//
// Such a struct has int64_t members only.
namespace sluice {

template <typename Counters>
struct CounterRow {
  // Under which logs, files and messages have it; it never changes. One with a
  // dot, "gradients.applied", is in JSON a member of an object.
  const char* name;
  // What is counted, in a few words that a person reads before the number.
  const char* help;
  int64_t Counters::*member;
};

// Counters by name, as they travel. Names need not be in any table: a process
// of another build may have sent them.
using CounterMap = std::map<std::string, int64_t>;

// Whether every member has one row, and every row a name of its own.
template <typename Counters, size_t n>
constexpr bool IsWhole(const CounterRow<Counters> (&table)[n]) {
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = 0; j < i; ++j) {
      if (table[i].member == table[j].member ||
          absl::string_view(table[i].name) == table[j].name) {
        return false;
      }
    }
  }
  return sizeof(Counters) == n * sizeof(int64_t);
}

// Sets every counter of the table in `to`, a CounterMap or a protobuf map.
template <typename Counters, size_t n, typename Map>
void PutCounters(const CounterRow<Counters> (&table)[n],
                 const Counters& counters, Map* to) {
  for (const CounterRow<Counters>& row : table) {
    (*to)[row.name] = counters.*row.member;
  }
}

// The counters of the table that `from` has; the others are 0.
template <typename Counters, size_t n, typename Map>
Counters CountersFrom(const CounterRow<Counters> (&table)[n], const Map& from) {
  Counters counters;
  for (const CounterRow<Counters>& row : table) {
    const auto it = from.find(row.name);
    if (it != from.end()) counters.*row.member = it->second;
  }
  return counters;
}

// "pulls_served=3 pulls_parked=1", in the order of the table, for a log line.
template <typename Counters, size_t n>
std::string CountersText(const CounterRow<Counters> (&table)[n],
                         const Counters& counters) {
  std::string text;
  for (const CounterRow<Counters>& row : table) {
    absl::StrAppend(&text, text.empty() ? "" : " ", row.name, "=",
                    counters.*row.member);
  }
  return text;
}

}  // namespace sluice

#endif  // SLUICE_COMMON_TELEMETRY_COUNTER_TABLE_H_
