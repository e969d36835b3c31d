#ifndef SLUICE_BENCH_KERNEL_BENCH_H_
#define SLUICE_BENCH_KERNEL_BENCH_H_

#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "bench/report.h"
#include "kernels/accelerator.h"
#include "kernels/device.h"

namespace sluice::bench {

// An array in a device's memory, of 4-byte numbers or of activations.
struct DeviceArray {
  std::unique_ptr<kernels::Buffer> buffer;
  int64_t size = 0;  // Numbers.
  int64_t bytes = 0;

  void* data() const { return buffer->data(); }
  float* floats() const { return buffer->floats(); }
};

// Measures operations of one device in turn with a reference that bounds them,
// so that both run at the same clock frequency. Adds a row for each, with the
// rate of the fastest of several rounds of many calls. Seconds are CPU seconds
// if the device computes on the CPU. Otherwise they are wall seconds, from the
// first call of a round until the device has finished all.
//
// If anything fails it prints the rows so far and the reason, and exits with 1.
//
// Not thread-safe: call from a thread that entered the device.
class KernelBench {
 public:
  // Calls an operation; the device may execute it later.
  using Step = std::function<absl::Status()>;

  struct Options {
    bool json = false;  // Output format if something fails.
    bool tiny = false;  // One call per round, and two rounds.
    int64_t copy_size =
        0;  // Numbers of the copy; 0: as many as the operation's.
    // Side of the large product's three square matrices.
    int64_t product_side = 512;
    double least_ratio = 0;   // Shortfall names the rows below this ratio.
    std::string suffix = "";  // Suffix of the rows' names.
  };

  // Both must outlive it.
  KernelBench(kernels::Device* device, Options options, Report* report);

  kernels::Device* device() const { return device_; }

  void Must(const absl::Status& status) const;
  // Waits for what was called.
  void Synchronize() const {
    if (auto* const gpu = device_->accelerator()) Must(gpu->Synchronize());
  }
  template <typename T>
  T Must(absl::StatusOr<T> value) const {
    Must(value.status());
    return *std::move(value);
  }

  // An array of these numbers.
  template <typename T>
  DeviceArray ArrayOf(const std::vector<T>& values) const {
    static_assert(sizeof(T) == sizeof(float));
    const auto size = static_cast<int64_t>(values.size());
    const int64_t bytes = size * static_cast<int64_t>(sizeof(T));
    DeviceArray array = {Must(device_->Allocate(bytes)), size, bytes};
    if (kernels::Accelerator* const gpu = device_->accelerator()) {
      Must(gpu->CopyToDevice(values.data(), array.data(), bytes));
    } else {
      std::memcpy(array.data(), values.data(), bytes);
    }
    return array;
  }
  // Numbers in [-1, 1), which repeat after about ten thousand.
  DeviceArray Array(int64_t size, uint64_t seed = 1) const;
  // The same numbers as activations.
  DeviceArray Activations(int64_t size, uint64_t seed = 1) const;

  // Measures an operation that moves `bytes` in one call, each array of the
  // formula counted once; the largest array has `size` activations. The
  // reference is a copy of the same bytes within the device's memory, which
  // reads and writes each byte.
  void Bytes(const std::string& what, int64_t bytes, int64_t size,
             const Step& step);
  // Measures an operation of this many multiplications and additions. The
  // reference is a large matrix product.
  void Operations(const std::string& what, double operations, const Step& step);

  // The rows of Bytes below least_ratio: "relu forward (0.71), ...".
  const std::string& shortfall() const { return shortfall_; }

 private:
  struct Reference {
    double amount;  // Of one call, in the unit of the step's amount.
    Step step;
  };

  Row Compare(const std::string& what, double amount, const Step& step,
              const Reference& reference);
  // Seconds per call, for this many calls.
  double Seconds(int64_t calls, const Step& step) const;
  // Number of calls in a round, found after a first call.
  int64_t CallsOf(const Step& step) const;

  // Constant after construction.
  kernels::Device* const device_;
  const Options options_;
  Report* const report_;
  const int rounds_;
  Reference product_;

  std::string shortfall_;
};

}  // namespace sluice::bench

#endif  // SLUICE_BENCH_KERNEL_BENCH_H_
