#include "kernels/cuda/op_context.h"

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "kernels/cuda/elementwise.h"
#include "kernels/cuda/launch_geometry.h"

namespace sluice::kernels::cuda {
namespace {

// What cudaMalloc's memory is aligned to.
constexpr int64_t kAlignment = 256;

int64_t RoundUp(int64_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace

absl::StatusOr<char*> OpContext::Scratch(int64_t bytes) {
  if (bytes > scratch_bytes_ || scratch_ == nullptr) {
    scratch_.reset();  // Waits until nothing uses it.
    scratch_bytes_ = 0;
    SLUICE_ASSIGN_OR_RETURN(scratch_, backend_->Allocate(bytes));
    scratch_bytes_ = bytes;
  }
  return static_cast<char*>(scratch_->data());
}

absl::Status OpContext::Launched(const std::string& name, int error) const {
  if (error == 0) return absl::OkStatus();
  return absl::InternalError(
      absl::StrCat(name, ": CUDA: ", backend_->ErrorText(error)));
}

absl::Status Named(const std::string& name, const absl::Status& status) {
  if (status.ok()) return status;
  return absl::Status(status.code(),
                      absl::StrCat(name, ": ", status.message()));
}

absl::Status CheckSize(const std::string& name, int64_t max_samples,
                       int64_t size) {
  if (size <= kLargestArray / max_samples) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(name, ": ", max_samples, " samples of ", size,
                   " floats are more than the CUDA device's ", kLargestArray,
                   " of an array; take a smaller micro-batch"));
}

void AlignedArrays::Read(const float** array, int64_t floats) {
  if (*array == nullptr || Aligned(*array)) return;
  moved_.push_back(
      {.read = array, .bytes = floats * static_cast<int64_t>(sizeof(float))});
}

void AlignedArrays::Write(float** array, int64_t floats) {
  if (*array == nullptr || Aligned(*array)) return;
  moved_.push_back({.write = array,
                    .home = *array,
                    .bytes = floats * static_cast<int64_t>(sizeof(float))});
}

absl::Status AlignedArrays::Begin(int64_t workspace_bytes) {
  int64_t bytes = RoundUp(workspace_bytes);
  for (const Moved& moved : moved_) bytes += RoundUp(moved.bytes);
  if (bytes == 0) return absl::OkStatus();
  SLUICE_ASSIGN_OR_RETURN(char* at, context_.Scratch(bytes));
  workspace_ = at;
  at += RoundUp(workspace_bytes);
  for (Moved& moved : moved_) {
    moved.scratch = reinterpret_cast<float*>(at);
    at += RoundUp(moved.bytes);
    if (moved.read != nullptr) {
      SLUICE_RETURN_IF_ERROR(
          context_.backend().Copy(*moved.read, moved.scratch, moved.bytes));
      *moved.read = moved.scratch;
    } else {
      *moved.write = moved.scratch;
    }
  }
  return absl::OkStatus();
}

absl::Status AlignedArrays::End() {
  for (const Moved& moved : moved_) {
    if (moved.write == nullptr) continue;
    SLUICE_RETURN_IF_ERROR(
        context_.backend().Copy(moved.scratch, moved.home, moved.bytes));
    *moved.write = moved.home;
  }
  return absl::OkStatus();
}

}  // namespace sluice::kernels::cuda
