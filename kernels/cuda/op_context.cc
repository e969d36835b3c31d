// Scratch belongs to one call at a time, which needs no lock: the stream runs
// the calls in order. While operations are recorded nothing can be allocated,
// so what is recorded must have run before, and a recording keeps the scratch
// that its kernels were given:
//
//   Scratch(1 MiB)                     allocated
//   Scratch(4 MiB)                     the first is freed, once nothing uses it
//   Record: Scratch(2 MiB)             the 4 MiB, which the recording keeps
//   Scratch(8 MiB)                     new ones; the recording has its 4 MiB
//   Record: Scratch(9 MiB)             kFailedPrecondition: not recorded
#include "kernels/cuda/op_context.h"

#include <utility>

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

// With the scratch memory that it uses.
class KeptRecording : public Recording {
 public:
  KeptRecording(std::shared_ptr<Buffer> scratch,
                std::unique_ptr<Recording> recording)
      : scratch_(std::move(scratch)), recording_(std::move(recording)) {}
  absl::Status Run() override { return recording_->Run(); }

 private:
  const std::shared_ptr<Buffer> scratch_;
  const std::unique_ptr<Recording> recording_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Recording>> OpContext::Record(
    absl::FunctionRef<absl::Status()> calls) {
  recording_ = true;
  auto recorded = backend_->Record(calls);
  recording_ = false;
  if (!recorded.ok()) return recorded.status();
  return std::make_unique<KeptRecording>(scratch_, *std::move(recorded));
}

absl::StatusOr<char*> OpContext::Scratch(int64_t bytes) {
  if (bytes > scratch_bytes_ || scratch_ == nullptr) {
    if (recording_) {
      return absl::FailedPreconditionError(absl::StrCat(
          "scratch memory of ", bytes, " bytes cannot be had while recording"));
    }
    scratch_.reset();  // Waits until nothing uses it.
    scratch_bytes_ = 0;
    SLUICE_ASSIGN_OR_RETURN(scratch_, backend_->Allocate(bytes));
    scratch_bytes_ = bytes;
  }
  return static_cast<char*>(scratch_->data());
}

absl::StatusOr<Pair> OpContext::WaitForTotal(
    const std::string& name, int64_t count,
    absl::FunctionRef<int(Pair* parts, Pair* total)> launch) {
  const int64_t bytes = (count + 1) * static_cast<int64_t>(sizeof(Pair));
  auto memory = Scratch(bytes);
  if (!memory.ok()) return Named(name, memory.status());
  auto* parts = reinterpret_cast<Pair*>(*memory);
  Pair* const total = parts + count;
  SLUICE_RETURN_IF_ERROR(Launched(name, launch(parts, total)));
  Pair sums;
  SLUICE_RETURN_IF_ERROR(
      Named(name, backend_->CopyToHost(total, &sums, sizeof(sums))));
  return sums;
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
  auto scratch = context_.Scratch(bytes);
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
    return Named(name_, context_.backend().Copy(x, y, to.bytes()));
  }
  return context_.Launched(name_, Convert(context_.stream(), from, x, to, y));
}

}  // namespace sluice::kernels::cuda
