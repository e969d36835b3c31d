#include "kernels/cuda/ops/library_op.h"

#include <utility>

#include "common/status_macros.h"
#include "kernels/cuda/kernels/elementwise.h"

namespace sluice::kernels::cuda {
namespace {

// What cudaMalloc's memory is aligned to.
constexpr int64_t kAlignment = 256;

int64_t RoundUp(int64_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace

void LibraryArrays::Read(const Images& has, const Images& wants,
                         const void** array) {
  if (*array == nullptr || (SameLayout(has, wants) && Aligned(*array))) return;
  const auto begin = [=, this](void* scratch) {
    const void* const from = std::exchange(*array, scratch);
    return Bring(has, from, wants, scratch);
  };
  moved_.push_back({wants.bytes(), begin, [] { return absl::OkStatus(); }});
}

void LibraryArrays::Write(const Images& has, const Images& wants,
                          void** array) {
  if (*array == nullptr || (SameLayout(has, wants) && Aligned(*array))) return;
  void* const home = *array;
  const auto begin = [array](void* scratch) {
    *array = scratch;
    return absl::OkStatus();
  };
  const auto end = [=, this] { return Bring(wants, *array, has, home); };
  moved_.push_back({wants.bytes(), begin, end});
}

absl::Status LibraryArrays::Begin(int64_t workspace_bytes) {
  int64_t bytes = RoundUp(workspace_bytes);
  for (const Moved& moved : moved_) bytes += RoundUp(moved.bytes);
  if (bytes == 0) return absl::OkStatus();
  auto scratch = gpu_.Scratch(bytes);
  if (!scratch.ok()) return Named(name_, scratch.status());
  char* at = *scratch;
  workspace_ = at;
  at += RoundUp(workspace_bytes);
  for (const Moved& moved : moved_) {
    SLUICE_RETURN_IF_ERROR(moved.begin(at));
    at += RoundUp(moved.bytes);
  }
  return absl::OkStatus();
}

absl::Status LibraryArrays::End() {
  for (const Moved& moved : moved_) SLUICE_RETURN_IF_ERROR(moved.end());
  return absl::OkStatus();
}

absl::Status LibraryArrays::Bring(const Images& from, const void* x,
                                  const Images& to, void* y) {
  if (SameLayout(from, to)) {
    return Named(name_, gpu_.Copy(x, y, to.bytes()));
  }
  return gpu_.Launched(name_, Convert(gpu_.stream(), from, x, to, y));
}

}  // namespace sluice::kernels::cuda
