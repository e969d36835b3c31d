#ifndef SLUICE_PS_SERVER_SHARD_EXCHANGE_COUNTERS_H_
#define SLUICE_PS_SERVER_SHARD_EXCHANGE_COUNTERS_H_

#include <cstdint>

namespace sluice {

// What one shard's Exchange service has done since it started.
struct ExchangeCounters {
  int64_t pulls_served = 0;     // Sent whole.
  int64_t pull_bytes = 0;       // Payload handed to the network.
  int64_t pulls_parked = 0;     // Came before their version.
  int64_t pulls_not_yet = 0;    // Parked, and answered NOT_YET.
  int64_t pulls_refused = 0;    // Version gone, wrong generation, malformed.
  int64_t pulls_ended = 0;      // Ended: too many old versions were held.
  int64_t pulls_stalled = 0;    // Given up: the caller took nothing.
  int64_t pulls_cancelled = 0;  // By the caller, or its connection broke.

  int64_t pushes_staged = 0;
  int64_t push_bytes = 0;        // Payload received.
  int64_t duplicate_chunks = 0;  // Of repeated pushes.
  int64_t pushes_refused = 0;
  int64_t pushes_cancelled = 0;  // By the caller, or its connection broke.

  int64_t decisions = 0;      // Executed.
  int64_t chunks_copied = 0;  // By updates, because somebody held the old one.
};

}  // namespace sluice

#endif  // SLUICE_PS_SERVER_SHARD_EXCHANGE_COUNTERS_H_
