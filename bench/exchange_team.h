#ifndef SLUICE_BENCH_EXCHANGE_TEAM_H_
#define SLUICE_BENCH_EXCHANGE_TEAM_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "bench/exchange_peer.h"
#include "common/parameter_layout.h"
#include "common/wire/float_type.h"

// The processes of bench/exchange.cc. All sides of the comparison are driven in
// the same way.
namespace sluice::bench {

// The amount of the exchange, and its participants.
struct ExchangePlan {
  int workers = 1;
  int shards = 1;
  int64_t floats = 0;  // Of the whole vector; each shard has a part.
  // Both directions at the same time; otherwise push, then pull.
  bool at_once = false;
  int64_t chunk_bytes = 1 << 20;
  FloatType type = FloatType::kFp32;  // In both directions; for Sluice only.
  bool shares_memory = false;         // For Sluice only.
  // Of the way between workers and shards; 0: the loopback's own.
  absl::Duration round_trip = absl::ZeroDuration();
};

// One tensor, initially all 1, and its division among the shards.
ParameterLayout LayoutOf(const ExchangePlan& plan);

// Ends the process with a message if `weights` are not the result of round
// `round`: the weights after it or, with at_once, any mixture of those after it
// and before it. In 16 bits they are compared after rounding.
void Verify(const ExchangePlan& plan, int64_t round,
            const std::vector<float>& weights);

// The body of one process; returns when it is told to stop.
using Body = std::function<void(const ExchangePlan& plan, int index,
                                const Control& control)>;
struct Bodies {
  Body shard;
  Body worker;
};

// Each process becomes `program`, which gets the plan on its command line and
// whose control connection is open (bench/peers/ps_lite.cc).
Bodies ProgramSide(const std::string& program);

// The workers and shards of one plan, one process each, connected and ready.
//
// Not thread-safe: call from a process with one thread.
class Team {
 public:
  Team(const ExchangePlan& plan, const Bodies& bodies);
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  // One exchange of all processes. Returns the slowest worker's times.
  Note Round(bool verify);
  // CPU seconds of all processes so far.
  double CpuSeconds() const;

 private:
  Control Start(const Body& body, int index);
  // Starts a link to the shard with this port; returns the link's port.
  int StartLink(int port);

  const ExchangePlan plan_;
  std::vector<pid_t> processes_;  // Workers and shards.
  std::vector<pid_t> links_;
  std::vector<Control> shards_;
  std::vector<Control> workers_;
  int64_t round_ = 0;
};

}  // namespace sluice::bench

#endif  // SLUICE_BENCH_EXCHANGE_TEAM_H_
