#ifndef SLUICE_KERNELS_CUDA_OPS_LIBRARY_OP_H_
#define SLUICE_KERNELS_CUDA_OPS_LIBRARY_OP_H_

#include <cstdint>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/cuda/gpu_device.h"
#include "kernels/cuda/kernels/casts.h"
#include "kernels/cuda/ops/gpu_op.h"

// What operations need that compute by a library: what it prepared, and arrays
// as it wants them.
namespace sluice::kernels::cuda {

// Rows of so many numbers.
inline Images Rows(Precision precision, int64_t rows, int64_t length) {
  return {precision, /*channels_last=*/true, rows, length, 1};
}

// The arrays of calls to a library, as it wants them: of its types and order,
// and aligned to 16 bytes, so that the same algorithm computes whatever their
// alignment was. Those that are not go through scratch. Errors name the
// operation.
//
//   LibraryArrays arrays(gpu, name);
//   arrays.Read(has, wants, &x);    // For every array, before Begin.
//   arrays.Write(has, wants, &y);
//   SLUICE_RETURN_IF_ERROR(arrays.Begin(workspace_bytes));
//   ... the library's call on x, y and arrays.workspace(), on the stream ...
//   return arrays.End();
//
// One object is for one call; the scratch is the device's until End, and
// `name` must outlive it.
//
// Not thread-safe: call from the compute thread.
class LibraryArrays {
 public:
  LibraryArrays(GpuDevice* gpu, const std::string& name)
      : gpu_(*gpu), name_(name) {}

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

  GpuDevice& gpu_;
  const std::string& name_;
  std::vector<Moved> moved_;
  void* workspace_ = nullptr;
};

// What an operation prepared, by number of samples, for a few of them. Results
// of a short batch are those of an operation prepared for just that size. What
// was prepared for the most samples stays.
//
// Not thread-safe: call from the compute thread.
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

// An operation that computes by what a library prepared for its samples.
//
// Not thread-safe: call from the compute thread.
template <typename Shape, typename Prepared>
class LibraryOp : public GpuOp<Shape> {
 public:
  using GpuOp<Shape>::GpuOp;

  // What is prepared in the device's precision, or in FP32 where the library
  // cannot do the shape in that. Good until the next call.
  absl::StatusOr<Prepared*> For(int64_t samples) {
    auto found = prepared_.For(samples, [this](int64_t n) {
      const Precision wanted = this->precision();
      auto made = PrepareIn(wanted, n);
      if (!absl::IsUnimplemented(made.status()) || wanted == Precision::kFp32) {
        return made;
      }
      this->gpu_.FellBack(this->name_,
                          absl::StrCat("with ", n, " samples in FP32"),
                          made.status());
      return PrepareIn(Precision::kFp32, n);
    });
    if (!found.ok()) return Named(this->name_, found.status());
    return found;
  }

 protected:
  // kUnimplemented where the library cannot do the shape in that precision.
  virtual absl::StatusOr<std::unique_ptr<Prepared>> PrepareIn(
      Precision precision, int64_t samples) = 0;
  // What a library prepared, or nullptr where it cannot do the shape, and
  // `instead` is done.
  template <typename T>
  absl::StatusOr<std::unique_ptr<T>> OrNone(
      absl::StatusOr<std::unique_ptr<T>> prepared, const std::string& instead) {
    if (!absl::IsUnimplemented(prepared.status())) return prepared;
    this->gpu_.FellBack(this->name_, instead, prepared.status());
    return std::unique_ptr<T>();
  }

 private:
  PerSamples<Prepared> prepared_;
};

}  // namespace sluice::kernels::cuda

#endif  // SLUICE_KERNELS_CUDA_OPS_LIBRARY_OP_H_
