#ifndef SLUICE_BENCH_EXCHANGE_STREAM_H_
#define SLUICE_BENCH_EXCHANGE_STREAM_H_

#include <string>

#include "bench/exchange_team.h"

namespace sluice::bench {

// A minimal program for the same exchange over one gRPC stream, with the
// options of Sluice's own connections and with its `certificates` (as for
// SluiceSide): the worker writes its gradient in chunks, the shard applies each
// at once and answers when it has all of them; then the worker asks for the
// weights and gets them in chunks, from their place. Nothing is staged,
// checked, versioned or framed. One worker and one shard, in turn.
Bodies StreamSide(const std::string& certificates = "");

}  // namespace sluice::bench

#endif  // SLUICE_BENCH_EXCHANGE_STREAM_H_
