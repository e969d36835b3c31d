#ifndef SLUICE_PS_SERVER_SHARD_EXCHANGE_COUNTERS_H_
#define SLUICE_PS_SERVER_SHARD_EXCHANGE_COUNTERS_H_

#include <cstdint>

#include "common/telemetry/counter_table.h"

namespace sluice {

// What one shard's Exchange service has done since it started. The shard's
// heartbeats carry these to the coordinator, whose status shows them, and the
// shard logs them at the end.
struct ExchangeCounters {
  int64_t pulls_served = 0;
  int64_t pull_bytes = 0;
  int64_t pulls_parked = 0;
  int64_t pulls_not_yet = 0;
  int64_t pulls_refused = 0;
  int64_t pulls_ended = 0;
  int64_t pulls_stalled = 0;
  int64_t pulls_cancelled = 0;

  int64_t pushes_staged = 0;
  int64_t push_bytes = 0;
  int64_t duplicate_chunks = 0;
  int64_t pushes_parked = 0;
  int64_t pushes_refused = 0;
  int64_t pushes_cancelled = 0;

  int64_t shared_bytes = 0;

  int64_t decisions = 0;
  int64_t chunks_copied = 0;
};

inline constexpr CounterRow<ExchangeCounters> kExchangeCounters[] = {
    {"pulls_served", "pulls sent whole", &ExchangeCounters::pulls_served},
    {"pull_bytes_total", "bytes of weights handed to the network",
     &ExchangeCounters::pull_bytes},
    {"pulls_parked", "pulls that came before their version",
     &ExchangeCounters::pulls_parked},
    {"pulls_not_yet", "parked pulls answered NOT_YET",
     &ExchangeCounters::pulls_not_yet},
    {"pulls_refused",
     "pulls refused: version gone, wrong generation or malformed",
     &ExchangeCounters::pulls_refused},
    {"pulls_ended", "pulls ended because too many old versions were held",
     &ExchangeCounters::pulls_ended},
    {"pulls_stalled", "pulls given up because the caller took nothing",
     &ExchangeCounters::pulls_stalled},
    {"pulls_cancelled", "pulls cancelled by the caller, or cut off",
     &ExchangeCounters::pulls_cancelled},
    {"pushes_staged", "gradients staged whole",
     &ExchangeCounters::pushes_staged},
    {"push_bytes_total", "bytes of gradients received",
     &ExchangeCounters::push_bytes},
    {"duplicate_chunks", "chunks that came again with a repeated push",
     &ExchangeCounters::duplicate_chunks},
    {"pushes_parked", "calls of pushes that waited for room",
     &ExchangeCounters::pushes_parked},
    {"pushes_refused", "pushes refused", &ExchangeCounters::pushes_refused},
    {"pushes_cancelled", "pushes cancelled by the caller, or cut off",
     &ExchangeCounters::pushes_cancelled},
    {"shared_bytes_total",
     "bytes of both that were read where they lie, in shared memory, and not "
     "sent",
     &ExchangeCounters::shared_bytes},
    {"decisions", "decisions executed", &ExchangeCounters::decisions},
    {"chunks_copied",
     "chunks that an update copied because somebody held the old one",
     &ExchangeCounters::chunks_copied},
};
static_assert(IsWhole(kExchangeCounters));

}  // namespace sluice

#endif  // SLUICE_PS_SERVER_SHARD_EXCHANGE_COUNTERS_H_
