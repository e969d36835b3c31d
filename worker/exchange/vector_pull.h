#ifndef SLUICE_WORKER_EXCHANGE_VECTOR_PULL_H_
#define SLUICE_WORKER_EXCHANGE_VECTOR_PULL_H_

#include <grpcpp/generic/generic_stub.h>

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
#include "common/parameter_layout.h"
#include "common/wire/wire_format.h"
#include "worker/cancel_token.h"
#include "worker/exchange/call_driver.h"
#include "worker/exchange/exchange.h"
#include "worker/exchange/pull_assembly.h"

namespace sluice {

// One pull of the flat vector after the other: a call to each shard, begun at
// once and waited for later.
//
// Wake and repeated_total may be called from any thread.
//
// Not thread-safe: call from the thread that computes.
class VectorPull {
 public:
  // How the slices travel; what is pointed to must outlive the pull.
  struct Path {
    const ParameterLayout* layout = nullptr;
    std::string client;  // Who asks, for the shards' logs.
    int64_t chunk_floats = 0;
    const WireFormat* format = nullptr;
    FloatType type = FloatType::kFp32;
    const std::vector<std::unique_ptr<grpc::GenericStub>>* stubs = nullptr;
    grpc::CompletionQueue* queue = nullptr;
  };
  // `names`, `limits` and `clock`: as CallDriver's.
  VectorPull(Path path, std::vector<std::string> names, CallLimits limits,
             Clock* clock);
  // REQUIRES: Abort was called, or nothing begun.
  ~VectorPull();

  // Begins to fill `weights`, which must stay until Finish or Abort has
  // returned. What was begun before is aborted.
  void Begin(const PullSpec& spec, absl::Span<float> weights);
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
  std::vector<Exchange::Travel> travels() const { return calls_.travels(); }

 private:
  class Attempt;

  void Start(int shard);
  // The same, where the call before has broken: it goes on there, if it can.
  void Repeat(int shard);
  // Floats that are there, from the first on.
  int64_t There() const;
  CallDriver::Hands MakeHands();

  // Constant after construction.
  const Path path_;
  const CallDriver::Hands hands_;

  std::optional<PullSpec> begun_;
  absl::Span<float> weights_;
  int64_t given_ = 0;                     // Await said that so many are there.
  bool broken_ = false;                   // Some of these come anew.
  std::vector<PullAssembly> assemblies_;  // What is there of each slice.
  std::vector<std::unique_ptr<Attempt>> attempts_;

  CallDriver calls_;
};

}  // namespace sluice

#endif  // SLUICE_WORKER_EXCHANGE_VECTOR_PULL_H_
