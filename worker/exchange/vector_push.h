#ifndef SLUICE_WORKER_EXCHANGE_VECTOR_PUSH_H_
#define SLUICE_WORKER_EXCHANGE_VECTOR_PUSH_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/clock.h"
#include "worker/exchange/call_driver.h"
#include "worker/exchange/exchange.h"
#include "worker/exchange/vector_path.h"
#include "worker/task/cancel_token.h"

namespace sluice {

// One push of the flat vector after the other: to each shard one call, or some
// beside each other (Slice), which bring its slice while it is made.
//
// Wake and the totals may be called from any thread.
//
// Not thread-safe: call from the compute thread.
class VectorPush {
 public:
  struct Gradient {
    GradientKey key;
    std::string grant;
    absl::Span<const float> floats;
    std::string ready = {};  // Travels with the first floats, the last to go.
  };
  // At most `lanes` calls to a shard at once. The others: as VectorPull's.
  VectorPush(VectorPath path, int lanes, std::vector<std::string> names,
             CallLimits limits, Clock* clock);
  ~VectorPush();  // As Abort.

  // As Exchange's BeginPush, PushFrom, PushLast, FinishPush and AbortPush.
  void Begin(Gradient gradient);
  void From(int64_t from);
  void Last(const proto::Ready& ready);
  absl::Status Finish(const CancelToken& cancel);
  void Abort();
  // Makes Finish look at its cancel token.
  void Wake() { calls_.Wake(); }

  // As VectorPull's.
  std::optional<UnreachedShard> unreached() const { return calls_.unreached(); }
  int64_t repeated_total() const { return calls_.repeated_total(); }
  int64_t bytes_total() const { return bytes_; }
  std::vector<Exchange::Travel> travels() const { return calls_.travels(); }

 private:
  class Slice;
  class Lane;

  // Constant after construction.
  const VectorPath path_;
  const int lanes_;

  Gradient gradient_;
  std::vector<std::unique_ptr<Slice>> slices_;  // Empty: nothing is begun.
  std::atomic<int64_t> bytes_{0};  // Handed to the network, of gradients.

  CallDriver calls_;
};

}  // namespace sluice

#endif  // SLUICE_WORKER_EXCHANGE_VECTOR_PUSH_H_
