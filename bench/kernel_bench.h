#ifndef SLUICE_BENCH_KERNEL_BENCH_H_
#define SLUICE_BENCH_KERNEL_BENCH_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "bench/report.h"
#include "kernels/device.h"

namespace sluice::bench {

// An array in a device's memory: of numbers of 4 bytes, or of activations.
struct DeviceArray {
  std::unique_ptr<kernels::Buffer> buffer;
  int64_t size = 0;  // Numbers.
  int64_t bytes = 0;

  void* data() const { return buffer->data(); }
  float* floats() const { return buffer->floats(); }
};

// Measures operations of one device in turn with what bounds them, so that both
// see the same clock of the processor, and adds a row for each: what the
// fastest of some rounds of many calls reached. Seconds are those of the CPU
// where the device computes on it; else of the clock, from the first call of a
// round until the device has done all.
//
// Where anything fails it prints the rows so far and why, and ends the process
// with 1.
//
// Not thread-safe: call from a thread that entered the device.
class KernelBench {
 public:
  // An operation that is called; the device may do it later.
  using Step = std::function<absl::Status()>;

  struct Options {
    bool json = false;  // How to print where something fails.
    bool tiny = false;  // One call a round, and two rounds.
    int64_t copy_size =
        0;  // Numbers of the copy; 0: as many as the operation's.
    int64_t product_side = 512;  // Of the large product's three matrices.
    double least_ratio = 0;      // Rows below are named by Shortfall.
    std::string suffix = "";     // Of the rows' names.
  };

  // Both must outlive it.
  KernelBench(kernels::Device* device, Options options, Report* report);

  kernels::Device* device() const { return device_; }

  void Must(const absl::Status& status) const;
  template <typename T>
  T Must(absl::StatusOr<T> value) const {
    Must(value.status());
    return *std::move(value);
  }

  // Of these numbers.
  template <typename T>
  DeviceArray ArrayOf(const std::vector<T>& values) const {
    static_assert(sizeof(T) == sizeof(float));
    const auto size = static_cast<int64_t>(values.size());
    const int64_t bytes = size * static_cast<int64_t>(sizeof(T));
    DeviceArray array = {Must(device_->Allocate(bytes)), size, bytes};
    Must(device_->CopyToDevice(values.data(), array.data(), bytes));
    return array;
  }
  // Of numbers in [-1, 1), which repeat themselves after some ten thousand.
  DeviceArray Array(int64_t size, uint64_t seed = 1) const;
  // Such numbers as activations.
  DeviceArray Activations(int64_t size, uint64_t seed = 1) const;

  // One call moves `bytes`, each array of the formula once, of which the
  // largest has `size` activations. Beside it a copy of these within the
  // device's memory, which reads and writes each byte.
  void Bytes(const std::string& what, int64_t bytes, int64_t size,
             const Step& step);
  // So many multiplications and additions, beside a large matrix product.
  void Operations(const std::string& what, double operations, const Step& step);

  // The rows of Bytes that missed the ratio: "relu forward (0.71), ...".
  const std::string& shortfall() const { return shortfall_; }

 private:
  struct Reference {
    double amount;  // Of one call, as the step's.
    Step step;
  };

  Row Compare(const std::string& what, double amount, const Step& step,
              const Reference& reference);
  // Seconds of one of so many calls.
  double Seconds(int64_t calls, const Step& step) const;
  // Calls of a round, after a first one.
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
