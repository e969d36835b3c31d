#include "worker/pipeline/activation_queue.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/key_proto.h"

namespace sluice {

void ActivationQueue::Open() {
  absl::MutexLock lock(&mu_);
  pieces_.clear();
  closed_ = absl::OkStatus();
}

void ActivationQueue::Put(proto::Activations piece) {
  absl::MutexLock lock(&mu_);
  pieces_.push_back(std::move(piece));
}

void ActivationQueue::Close(const absl::Status& why) {
  absl::MutexLock lock(&mu_);
  if (closed_.ok()) closed_ = why;
}

void ActivationQueue::Begin(const GradientKey& task) {
  absl::MutexLock lock(&mu_);
  task_ = task;
}

void ActivationQueue::Wake() { absl::MutexLock lock(&mu_); }

bool ActivationQueue::HasPiece() {
  while (!pieces_.empty()) {
    const GradientKey key = KeyFromProto(pieces_.front().key());
    if (key == task_) return true;
    if (key > task_) return false;
    pieces_.pop_front();
  }
  return false;
}

absl::Status ActivationQueue::Take(int64_t pass, absl::Span<uint8_t> into,
                                   const CancelToken& cancel) {
  const auto size = static_cast<int64_t>(into.size());
  const auto ready = [this, &cancel]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    return HasPiece() || !closed_.ok() || cancel.cancelled();
  };
  for (int64_t here = 0; here < size;) {
    proto::Activations piece;
    {
      absl::MutexLock lock(&mu_);
      mu_.Await(absl::Condition(&ready));
      if (cancel.cancelled())
        return absl::AbortedError("the task was cancelled");
      if (!HasPiece()) return closed_;
      piece = std::move(pieces_.front());
      pieces_.pop_front();
    }
    const auto bytes = static_cast<int64_t>(piece.data().size());
    if (piece.pass() != pass || piece.size() != size ||
        piece.offset() != here || bytes == 0 || bytes > size - here) {
      return absl::DataLossError(absl::StrCat(
          "pass ", piece.pass(), ": ", bytes, " bytes of ", piece.size(),
          " came at ", piece.offset(), ", expected pass ", pass, ", ", size,
          " bytes, of which ", here, " are here"));
    }
    std::memcpy(into.data() + here, piece.data().data(), bytes);
    here += bytes;
  }
  return absl::OkStatus();
}

}  // namespace sluice
