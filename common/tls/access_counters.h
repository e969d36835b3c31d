#ifndef SLUICE_COMMON_TLS_ACCESS_COUNTERS_H_
#define SLUICE_COMMON_TLS_ACCESS_COUNTERS_H_

#include <cstdint>

#include "common/telemetry/counter_table.h"

namespace sluice {

// Whom a server has refused since its process started. A shard's heartbeats
// carry these to the coordinator.
struct AccessCounters {
  int64_t connections_refused = 0;
  int64_t handshakes_failed = 0;
  int64_t peers_refused = 0;
  int64_t calls_refused = 0;
};

inline constexpr CounterRow<AccessCounters> kAccessCounters[] = {
    {"connections_refused",
     "connections closed: too many, an offence, or no file descriptor was free",
     &AccessCounters::connections_refused},
    {"handshakes_failed", "TLS handshakes that failed",
     &AccessCounters::handshakes_failed},
    {"peers_refused", "peers refused for what their certificate says",
     &AccessCounters::peers_refused},
    {"calls_refused",
     "calls refused: not for the caller's role, revoked, or too many at once",
     &AccessCounters::calls_refused},
};
static_assert(IsWhole(kAccessCounters));

}  // namespace sluice

#endif  // SLUICE_COMMON_TLS_ACCESS_COUNTERS_H_
