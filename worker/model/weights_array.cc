#include "worker/model/weights_array.h"

#include <utility>

#include "common/status_macros.h"

namespace sluice {

absl::StatusOr<WeightsArray> WeightsArray::Create(kernels::Device* device,
                                                  int64_t floats) {
  WeightsArray made;
  if (device->uses_host_memory()) return made;
  SLUICE_ASSIGN_OR_RETURN(
      made.buffer_,
      device->Allocate(floats * static_cast<int64_t>(sizeof(float))));
  SLUICE_ASSIGN_OR_RETURN(made.upload_, device->PrepareUpload());
  return made;
}

absl::Status WeightsArray::Begin(absl::Span<const float> values, Await await,
                                 std::function<void(bool)> on_copy) {
  values_ = values;
  await_ = std::move(await);
  on_copy_ = std::move(on_copy);
  there_ = 0;
  owns_ = false;
  return upload_ == nullptr ? absl::OkStatus() : upload_->Begin();
}

const float* WeightsArray::on_device() const {
  if (buffer_ != nullptr) return buffer_->floats();
  return owns_ ? copy_.data() : values_.data();
}

float* WeightsArray::Own() {
  SLUICE_CHECK(there_ == static_cast<int64_t>(values_.size()));
  if (buffer_ != nullptr) return buffer_->floats();
  if (!std::exchange(owns_, true)) {
    copy_.assign(values_.begin(), values_.end());
  }
  return copy_.data();
}

absl::Status WeightsArray::Need(int64_t end) {
  if (end <= there_) return absl::OkStatus();
  int64_t there = static_cast<int64_t>(values_.size());
  if (await_ != nullptr) {
    SLUICE_ASSIGN_OR_RETURN(there, await_(end));
    SLUICE_CHECK(there >= end);
  }
  const int64_t before = std::exchange(there_, there);
  if (upload_ == nullptr) return absl::OkStatus();
  on_copy_(true);
  SLUICE_RETURN_IF_ERROR(
      upload_->Send(values_.data() + before, buffer_->floats() + before,
                    (there - before) * static_cast<int64_t>(sizeof(float))));
  on_copy_(false);
  return absl::OkStatus();
}

}  // namespace sluice
