#include "bench/kernel_bench.h"

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/clock.h"
#include "kernels/testing/op_cases.h"

namespace sluice::bench {
namespace {

// Duration of one round. The CPU clock has steps of 1 us, and the end of a
// GPU's round is noticed about 10 us late.
constexpr double kRoundSeconds = 5e-3;

std::vector<float> Repeated(int64_t size, uint64_t seed) {
  // A prime, so that rows begin with different numbers.
  constexpr int64_t kPeriod = 65537;
  std::vector<float> values =
      kernels::ToFloats(kernels::UniformValues(std::min(size, kPeriod), seed));
  values.resize(size);
  for (int64_t i = kPeriod; i < size; ++i) values[i] = values[i - kPeriod];
  return values;
}

}  // namespace

void KernelBench::Must(const absl::Status& status) const {
  if (status.ok()) return;
  report_->Note(absl::StrCat("FAILED: ", status.ToString()));
  report_->Print(options_.json);
  std::exit(1);
}

DeviceArray KernelBench::Array(int64_t size, uint64_t seed) const {
  return ArrayOf(Repeated(size, seed));
}

DeviceArray KernelBench::Activations(int64_t size, uint64_t seed) const {
  DeviceArray floats = Array(size, seed);
  const auto input = Must(device_->Prepare(kernels::InputShape{size, 1}, 1));
  if (input == nullptr) return floats;
  const int64_t bytes = size * device_->activation_bytes();
  DeviceArray array = {Must(device_->Allocate(bytes)), size, bytes};
  Must(input->Run(1, floats.floats(), array.data()));
  Synchronize();
  return array;
}

KernelBench::KernelBench(kernels::Device* device, Options options,
                         Report* report)
    : device_(device),
      options_(std::move(options)),
      report_(report),
      // A GPU's clock is steadier than a shared processor's.
      rounds_(options_.tiny                      ? 2
              : device->accelerator() != nullptr ? 3
                                                 : 10) {
  const int64_t side = options_.product_side;
  const std::shared_ptr<kernels::LinearOp> op =
      Must(device->Prepare(kernels::DenseShape{side, side, false}, side));
  const auto shared = [](DeviceArray array) {
    return std::make_shared<DeviceArray>(std::move(array));
  };
  product_ = {
      2.0 * static_cast<double>(side * side * side),
      [side, op, x = shared(Activations(side * side)),
       w = shared(Array(side * side)), y = shared(Activations(side * side))] {
        return op->Forward(side, x->data(), w->floats(), nullptr, y->data());
      }};
}

double KernelBench::Seconds(int64_t calls, const Step& step) const {
  const auto now = [this] {
    return device_->accelerator() == nullptr
               ? static_cast<double>(std::clock()) / CLOCKS_PER_SEC
               : absl::ToDoubleSeconds(Clock::Real()->Now() -
                                       absl::UnixEpoch());
  };
  const double start = now();
  for (int64_t i = 0; i < calls; ++i) Must(step());
  Synchronize();
  // What takes no longer than the clock's step took that.
  return std::max(now() - start, 1.0 / CLOCKS_PER_SEC) /
         static_cast<double>(calls);
}

int64_t KernelBench::CallsOf(const Step& step) const {
  Seconds(1, step);  // The first call allocates memory.
  if (options_.tiny) return 1;
  int64_t calls = 1;
  while (calls < 1 << 20 &&
         Seconds(calls, step) * static_cast<double>(calls) < kRoundSeconds) {
    calls *= 2;
  }
  return calls;
}

Row KernelBench::Compare(const std::string& what, double amount,
                         const Step& step, const Reference& reference) {
  const int64_t calls = CallsOf(step), others = CallsOf(reference.step);
  double seconds = std::numeric_limits<double>::infinity();
  double expected = seconds;
  for (int round = 0; round < rounds_; ++round) {
    expected = std::min(expected, Seconds(others, reference.step));
    seconds = std::min(seconds, Seconds(calls, step));
  }
  Row row;
  row.what = absl::StrCat(what, options_.suffix);
  row.expected = reference.amount / expected / 1e9;
  row.measured = amount / seconds / 1e9;
  return row;
}

void KernelBench::Bytes(const std::string& what, int64_t bytes, int64_t size,
                        const Step& step) {
  const int64_t copied = options_.copy_size > 0 ? options_.copy_size : size;
  // Without random draws it only copies.
  const auto copy =
      Must(device_->Prepare(kernels::DropoutShape{copied, /*pixels=*/1, 0}, 1));
  const DeviceArray from = Activations(copied), to = Activations(copied);
  Row row = Compare(what, static_cast<double>(bytes), step,
                    {2.0 * static_cast<double>(from.bytes),
                     [&] { return copy->Run(1, from.data(), to.data()); }});
  row.unit = "GB/s";
  row.expected_from =
      options_.copy_size > 0 ? "a copy in cache" : "a copy of that size";
  if (row.ratio() < options_.least_ratio) {
    absl::StrAppendFormat(&shortfall_, "%s%s (%.2f)",
                          shortfall_.empty() ? "" : ", ", row.what,
                          row.ratio());
  }
  report_->Add(std::move(row));
}

void KernelBench::Operations(const std::string& what, double operations,
                             const Step& step) {
  Row row = Compare(what, operations, step, product_);
  row.unit = "GFLOP/s";
  row.expected_from = "a large product";
  report_->Add(std::move(row));
}

}  // namespace sluice::bench
