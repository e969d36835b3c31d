#ifndef SLUICE_KERNELS_CUDA_OP_CONTEXT_H_
#define SLUICE_KERNELS_CUDA_OP_CONTEXT_H_

#include <cstdint>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/cuda/backend.h"
#include "kernels/cuda/casts.h"

namespace sluice::kernels::cuda {

// What the operations of one device share: its backend and precision, and
// scratch memory that belongs to one call of an operation at a time, since the
// stream runs them one after the other.
//
// Not thread-safe: call from the thread that computes.
class OpContext {
 public:
  OpContext(std::unique_ptr<Backend> backend, Precision precision)
      : backend_(std::move(backend)), precision_(precision) {}

  Backend& backend() const { return *backend_; }
  Precision precision() const { return precision_; }
  Stream stream() const { return backend_->stream(); }

  // At least `bytes`, aligned to 256, good until the next call; or as long as
  // what is recorded meanwhile. kResourceExhausted as Device::Allocate.
  absl::StatusOr<char*> Scratch(int64_t bytes);

  // As Device::Record.
  absl::StatusOr<std::unique_ptr<Recording>> Record(
      absl::FunctionRef<absl::Status()> calls);

  // What `launch(parts, total)`, with `count` pairs as scratch, makes of
  // `total`, once it is done. Errors name the operation.
  absl::StatusOr<Pair> WaitForTotal(
      const std::string& name, int64_t count,
      absl::FunctionRef<int(Pair* parts, Pair* total)> launch);

  // What the launch of a kernel of operation `name` returned, as a status.
  absl::Status Launched(const std::string& name, int error) const;

 private:
  const std::unique_ptr<Backend> backend_;
  const Precision precision_;
  // Grows to what the largest call needs; recordings keep what they use.
  std::shared_ptr<Buffer> scratch_;
  int64_t scratch_bytes_ = 0;
  bool recording_ = false;
};

// `status` with `name` before its message.
absl::Status Named(const std::string& name, const absl::Status& status);

// kInvalidArgument, naming the operation, where `max_samples` of `size` floats
// are more than an array may have.
absl::Status CheckSize(const std::string& name, int64_t max_samples,
                       int64_t size);

// What `make` prepares in a precision: in `precision`, or in FP32 where a
// library cannot do the shape in that.
template <typename F>
auto InPrecisionOrFp32(Precision precision, const F& make)
    -> decltype(make(precision)) {
  auto made = make(precision);
  if (precision == Precision::kFp32 || !absl::IsUnimplemented(made.status())) {
    return made;
  }
  return make(Precision::kFp32);
}

// Rows of so many numbers.
inline Images Rows(Precision precision, int64_t rows, int64_t length) {
  return {precision, /*channels_last=*/true, rows, length, 1};
}

// The arrays of calls to a library, as it wants them: of its types and order,
// and aligned to 16 bytes, so that the same algorithm computes whatever their
// alignment was. Those that are not go through scratch. Errors name the
// operation.
//
// Not thread-safe: call from the thread that computes.
class LibraryArrays {
 public:
  LibraryArrays(OpContext* context, const std::string& name)
      : context_(*context), name_(name) {}

  // `*array` points to numbers that lie as `has` says, and between Begin and
  // End to the same as the library `wants` them. Nothing for nullptr.
  void Read(const Images& has, const Images& wants, const void** array);
  void Write(const Images& has, const Images& wants, void** array);

  // Brings what is read, and has `workspace_bytes` at workspace().
  absl::Status Begin(int64_t workspace_bytes);
  void* workspace() const { return workspace_; }
  // Brings what was written to where it belongs.
  absl::Status End();

 private:
  struct Moved {
    int64_t bytes;  // Of scratch.
    std::function<absl::Status(void* scratch)> begin;
    std::function<absl::Status()> end;
  };

  absl::Status Bring(const Images& from, const void* x, const Images& to,
                     void* y);

  OpContext& context_;
  const std::string& name_;
  std::vector<Moved> moved_;
  void* workspace_ = nullptr;
};

// What an operation prepared, by number of samples, for a few of them. Results
// of a short batch are those of an operation prepared for just that size. What
// was prepared for the most samples stays.
//
// Not thread-safe: call from the thread that computes.
template <typename T>
class PerSamples {
 public:
  // The one for `samples`, from `make`, which returns a StatusOr of a pointer
  // to it, when it is missing. Good until the next call.
  template <typename F>
  absl::StatusOr<T*> For(int64_t samples, const F& make) {
    const auto found = prepared_.find(samples);
    if (found != prepared_.end()) return found->second.get();
    // A run has full mini-batches, the last of an epoch, and the same two of
    // the test split. Those of full ones may be in recordings.
    if (prepared_.size() >= 4) {
      prepared_.erase(prepared_.begin(), std::prev(prepared_.end()));
    }
    auto made = make(samples);
    if (!made.ok()) return made.status();
    return (prepared_[samples] = *std::move(made)).get();
  }

 private:
  std::map<int64_t, std::unique_ptr<T>> prepared_;
};

}  // namespace sluice::kernels::cuda

#endif  // SLUICE_KERNELS_CUDA_OP_CONTEXT_H_
