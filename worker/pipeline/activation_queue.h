#ifndef SLUICE_WORKER_PIPELINE_ACTIVATION_QUEUE_H_
#define SLUICE_WORKER_PIPELINE_ACTIVATION_QUEUE_H_

#include <cstdint>
#include <deque>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "common/ids.h"
#include "proto/member.pb.h"
#include "worker/task/cancel_token.h"

namespace sluice {

// What a neighbour sends, from the thread that reads it to the one that
// computes. Pieces are of one task after the other, as keys go up. What is of a
// later task than the present one waits: the neighbour has heard of this one's
// cancel, and it is on its way here, too.
//
// Memory: what the neighbour may have sent ahead, which is bounded by the
// passes that it may begin before the first comes back.
//
// Thread-safe.
class ActivationQueue {
 public:
  // ---- Called by the reader thread. ----

  // A new stream begins.
  void Open();
  void Put(proto::Activations piece);
  // No more come, because of `why`.
  void Close(const absl::Status& why);

  // ---- Called by the compute thread. ----

  void Begin(const GradientKey& task);
  // As Neighbour::Receive.
  absl::Status Take(int64_t pass, absl::Span<uint8_t> into,
                    const CancelToken& cancel);

  // Makes Take look at its token. From any thread.
  void Wake();

 private:
  // Whether a piece of the task is first; drops those of earlier ones.
  bool HasPiece() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  absl::Mutex mu_;  // Leaf lock: nothing else is acquired under it.
  GradientKey task_ ABSL_GUARDED_BY(mu_);
  std::deque<proto::Activations> pieces_ ABSL_GUARDED_BY(mu_);
  absl::Status closed_ ABSL_GUARDED_BY(mu_);  // OK: open.
};

}  // namespace sluice

#endif  // SLUICE_WORKER_PIPELINE_ACTIVATION_QUEUE_H_
