#ifndef SLUICE_KERNELS_CUDA_OP_CONTEXT_H_
#define SLUICE_KERNELS_CUDA_OP_CONTEXT_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/cuda/backend.h"

namespace sluice::kernels::cuda {

// What the operations of one device share: its backend, and scratch memory that
// belongs to one call of an operation at a time, since the stream runs them one
// after the other.
//
// Not thread-safe: call from the thread that computes.
class OpContext {
 public:
  explicit OpContext(std::unique_ptr<Backend> backend)
      : backend_(std::move(backend)) {}

  Backend& backend() const { return *backend_; }
  Stream stream() const { return backend_->stream(); }

  // At least `bytes`, aligned to 256, good until the next call.
  // kResourceExhausted as Device::Allocate.
  absl::StatusOr<char*> Scratch(int64_t bytes);

  // What the launch of a kernel of operation `name` returned, as a status.
  absl::Status Launched(const std::string& name, int error) const;

 private:
  const std::unique_ptr<Backend> backend_;
  // Grows to what the largest call needs.
  std::unique_ptr<Buffer> scratch_;
  int64_t scratch_bytes_ = 0;
};

// `status` with `name` before its message.
absl::Status Named(const std::string& name, const absl::Status& status);

// kInvalidArgument, naming the operation, where `max_samples` of `size` floats
// are more than an array may have.
absl::Status CheckSize(const std::string& name, int64_t max_samples,
                       int64_t size);

// The arrays of one call to a library, which wants them aligned to 16 bytes so
// that the same algorithm computes whatever their alignment was: those that are
// not are moved through scratch.
//
// Not thread-safe: call from the thread that computes.
class AlignedArrays {
 public:
  explicit AlignedArrays(OpContext* context) : context_(*context) {}

  // `*array`, of `floats`, is read, or written, between Begin and End; it
  // points to scratch then if it has to. Nothing for nullptr.
  void Read(const float** array, int64_t floats);
  void Write(float** array, int64_t floats);

  // Copies what is read, and has `workspace_bytes` at workspace().
  absl::Status Begin(int64_t workspace_bytes);
  void* workspace() const { return workspace_; }
  // Copies what was written to where it belongs.
  absl::Status End();

 private:
  struct Moved {
    const float** read = nullptr;
    float** write = nullptr;
    float* home = nullptr;  // Of what is written.
    float* scratch = nullptr;
    int64_t bytes = 0;
  };

  OpContext& context_;
  std::vector<Moved> moved_;
  void* workspace_ = nullptr;
};

// What an operation prepared, by number of samples, for a few of them. Results
// of a short batch are those of an operation prepared for just that size.
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
    // the test split.
    if (prepared_.size() >= 4) prepared_.clear();
    auto made = make(samples);
    if (!made.ok()) return made.status();
    return (prepared_[samples] = *std::move(made)).get();
  }

 private:
  std::map<int64_t, std::unique_ptr<T>> prepared_;
};

}  // namespace sluice::kernels::cuda

#endif  // SLUICE_KERNELS_CUDA_OP_CONTEXT_H_
