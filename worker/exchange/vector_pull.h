#ifndef SLUICE_WORKER_EXCHANGE_VECTOR_PULL_H_
#define SLUICE_WORKER_EXCHANGE_VECTOR_PULL_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/clock.h"
#include "common/ids.h"
#include "worker/exchange/call_driver.h"
#include "worker/exchange/exchange.h"
#include "worker/exchange/pull_assembly.h"
#include "worker/exchange/vector_path.h"
#include "worker/task/cancel_token.h"

namespace sluice {

// One pull of the flat vector after the other: a call to each shard, begun at
// once and waited for later. A call that was begun runs where the loop is
// served, and writes into the weights, and into its assembly, until `calls_`
// have heard its end.
//
// Wake and the totals may be called from any thread.
//
// Not thread-safe: call from the compute thread.
class VectorPull {
 public:
  // `names`, `limits` and `clock`: as CallDriver's.
  VectorPull(VectorPath path, std::vector<std::string> names, CallLimits limits,
             Clock* clock);
  ~VectorPull();  // As Abort.

  // Begins to fill `weights`, which must stay until Finish or Abort has
  // returned. What was begun before is aborted.
  void Begin(const PullSpec& spec, absl::Span<float> weights);
  // The same; the loop's thread, if any, opens the calls, which takes 50 us.
  void BeginAhead(const PullSpec& spec, absl::Span<float> weights);
  // As Exchange::AwaitPulled. REQUIRES: begun().
  absl::StatusOr<OrRestarted<int64_t>> Await(int64_t end, absl::Time deadline,
                                             const CancelToken& cancel);
  // As Exchange::FinishPull. REQUIRES: begun().
  absl::StatusOr<std::vector<Version>> Finish(absl::Time deadline,
                                              const CancelToken& cancel);
  // Nothing writes into the weights any more.
  void Abort();
  // Makes Await and Finish look at their cancel token.
  void Wake() { calls_.Wake(); }

  // Something has been begun, and neither been finished nor aborted.
  bool begun() const { return begun_.has_value(); }
  // The same, into that memory.
  bool Fills(absl::Span<float> weights) const {
    return begun() && weights_.data() == weights.data();
  }
  // The same, of those weights, and no call has failed for good meanwhile.
  bool Brings(const PullSpec& spec, absl::Span<float> weights) const {
    return Fills(weights) && begun_->SameWeights(spec) && calls_.sound();
  }

  // As CallDriver's. From any thread.
  std::optional<UnreachedShard> unreached() const { return calls_.unreached(); }
  int64_t repeated_total() const { return calls_.repeated_total(); }
  int64_t bytes_total() const { return bytes_; }
  std::vector<Exchange::Travel> travels() const { return calls_.travels(); }

 private:
  class Attempt;

  void BeginWithoutCalls(const PullSpec& spec, absl::Span<float> weights);
  void Start(int shard);
  // The same, where the call before has broken: it goes on there, if it can.
  void Repeat(int shard);
  // Floats that are there, from the first on.
  int64_t There() const;
  CallDriver::Hands MakeHands();
  // Of attempts that have delivered or end soon.
  void LetGo();

  // Constant after construction.
  const VectorPath path_;
  const CallDriver::Hands hands_;

  std::optional<PullSpec> begun_;
  absl::Span<float> weights_;
  int64_t given_ = 0;    // Await said that so many are there.
  bool broken_ = false;  // Some of these come anew.
  // What is there of each slice: the loop thread's while a call runs.
  std::vector<PullAssembly> assemblies_;
  std::vector<std::unique_ptr<Attempt>> attempts_;
  std::vector<std::unique_ptr<Attempt>> ending_;  // They have delivered.
  std::atomic<int64_t> bytes_{0};                 // Of weights that have come.

  CallDriver calls_;
};

}  // namespace sluice

#endif  // SLUICE_WORKER_EXCHANGE_VECTOR_PULL_H_
