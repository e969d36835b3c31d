// With memory of its own the device gets [0, there_) of the host's vector, each
// float once; only what is new is sent, beside the operations on what was
// there:
//
//   WaitUntil(10)   the host has 12, all within kLeastSent: sends [0, 12)
//   WaitUntil(11)   nothing
//   WaitUntil(15)   sends [12, 15)
//
// No more is sent at once than is waited for, or kLeastSent: what an operation
// needs must not wait for the copy of what later ones do.
//
// Where device memory is host memory nothing is sent, and values() are the
// host's own. Local steps move weights, though, and what was pulled is not
// theirs to change: Own() makes the copy that they move, once for each vector.
#include "worker/model/accelerator/weights_array.h"

#include <algorithm>
#include <utility>

#include "common/status_macros.h"

namespace sluice {
namespace {

// Floats: a copy of fewer takes as long.
constexpr int64_t kLeastSent = 1 << 18;

}  // namespace

absl::StatusOr<WeightsArray> WeightsArray::Create(kernels::Device* device,
                                                  int64_t floats) {
  WeightsArray made;
  kernels::Accelerator* const accelerator = device->accelerator();
  if (accelerator == nullptr) return made;
  SLUICE_ASSIGN_OR_RETURN(
      made.buffer_,
      accelerator->Allocate(floats * static_cast<int64_t>(sizeof(float))));
  SLUICE_ASSIGN_OR_RETURN(made.upload_, accelerator->PrepareUpload());
  return made;
}

absl::Status WeightsArray::Begin(WeightSource* host, TaskProgress* progress) {
  host_ = host;
  progress_ = progress;
  there_ = 0;
  owns_ = false;
  return upload_ == nullptr ? absl::OkStatus() : upload_->Begin();
}

absl::Span<const float> WeightsArray::values() const {
  const absl::Span<const float> host = host_->values();
  if (buffer_ != nullptr) return {buffer_->floats(), host.size()};
  return owns_ ? absl::MakeConstSpan(copy_) : host;
}

float* WeightsArray::Own() {
  SLUICE_CHECK(complete());
  if (buffer_ != nullptr) return buffer_->floats();
  if (!std::exchange(owns_, true)) {
    copy_.assign(host_->values().begin(), host_->values().end());
  }
  return copy_.data();
}

absl::StatusOr<OrRestarted<int64_t>> WeightsArray::WaitUntil(int64_t end) {
  if (end <= there_) return there_;
  SLUICE_ASSIGN_OR_RETURN(const auto waited, host_->WaitUntil(end));
  if (IsRestarted(waited)) {
    there_ = 0;  // What was sent may be another version's.
    return Restarted{};
  }
  int64_t there = std::get<int64_t>(waited);
  SLUICE_CHECK(there >= end);
  if (upload_ == nullptr) return there_ = there;
  there = std::min(there, std::max(end, there_ + kLeastSent));
  const int64_t before = std::exchange(there_, there);
  progress_->BeginCopy(Transfer::kToDevice);
  SLUICE_RETURN_IF_ERROR(
      upload_->Send(host_->values().data() + before, buffer_->floats() + before,
                    (there - before) * static_cast<int64_t>(sizeof(float))));
  progress_->EndCopy(Transfer::kToDevice);
  return there;
}

}  // namespace sluice
