#ifndef SLUICE_KERNELS_CUDA_TESTING_ARRAY_TESTING_H_
#define SLUICE_KERNELS_CUDA_TESTING_ARRAY_TESTING_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "kernels/cuda/kernels/number_types.h"
#include "kernels/device.h"
#include "kernels/testing/on_device.h"

// Arrays of activations on the devices that tests compute on.
namespace sluice::kernels {

// Values as activations in `precision` hold them.
inline std::vector<float> RoundedTo(Precision precision,
                                    std::vector<float> values) {
  cuda::WithType(precision, [&](auto type) {
    using Type = decltype(type);
    for (float& v : values) v = Type::Widen(Type::Narrow(v));
  });
  return values;
}

// An array of activations on a device that has them in `precision`, images of
// `channels`; otherwise as OnDevice. Values are row-major.
//
// Not thread-safe: call from the thread of the test.
class Activations {
 public:
  Activations(Device* device, Precision precision,
              const std::vector<float>& values, int64_t offset = 0,
              int64_t channels = 1, int64_t pixels = 1)
      : precision_(precision), channels_(channels), pixels_(pixels) {
    if (Is16Bit(precision)) {
      halves_.emplace(device, Stored(values), offset);
    } else {
      floats_.emplace(device, values, offset);
    }
  }
  static Activations Unwritten(Device* device, Precision precision,
                               int64_t size, int64_t offset = 0,
                               int64_t channels = 1, int64_t pixels = 1) {
    return Activations(device, precision,
                       std::vector<float>(size, std::nanf("")), offset,
                       channels, pixels);
  }

  void* data() const {
    if (floats_.has_value()) return floats_->data();
    return halves_->data();
  }
  void Write(const std::vector<float>& values) const {
    if (floats_.has_value()) return floats_->Write(values);
    halves_->Write(Stored(values));
  }
  std::vector<float> Read() const {
    if (floats_.has_value()) return floats_->Read();
    const std::vector<uint16_t> stored = halves_->Read();
    std::vector<float> values(stored.size());
    cuda::WithType(precision_, [&](auto type) {
      for (size_t i = 0; i < values.size(); ++i) {
        values[i] = type.Widen(stored[Place(i)]);
      }
    });
    return values;
  }

 private:
  std::vector<uint16_t> Stored(const std::vector<float>& values) const {
    std::vector<uint16_t> stored(values.size());
    cuda::WithType(precision_, [&](auto type) {
      for (size_t i = 0; i < values.size(); ++i) {
        stored[Place(i)] = static_cast<uint16_t>(type.Narrow(values[i]));
      }
    });
    return stored;
  }

  // Where number i is, with channels last.
  size_t Place(size_t i) const {
    const size_t pixel = i % pixels_, plane = i / pixels_;
    const size_t sample = plane / channels_, channel = plane % channels_;
    return (sample * pixels_ + pixel) * channels_ + channel;
  }

  const Precision precision_;
  const size_t channels_, pixels_;
  // One of them.
  std::optional<OnDevice<float>> floats_;
  std::optional<OnDevice<uint16_t>> halves_;
};

}  // namespace sluice::kernels

#endif  // SLUICE_KERNELS_CUDA_TESTING_ARRAY_TESTING_H_
