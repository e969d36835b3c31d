#ifndef SLUICE_KERNELS_CUDA_TESTING_CUDA_TESTING_H_
#define SLUICE_KERNELS_CUDA_TESTING_CUDA_TESTING_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/accelerator.h"
#include "kernels/cuda/cuda_device.h"
#include "kernels/cuda/kernels/launch_geometry.h"
#include "kernels/cuda/testing/array_testing.h"
#include "kernels/cuda/testing/emulated_gpu.h"
#include "kernels/reference/reference_device.h"
#include "kernels/testing/comparison.h"
#include "kernels/testing/op_cases.h"
#include "kernels/testing/op_runs.h"

// What the tests of the CUDA device share. Each runs on the machine's GPU,
// where there is one, and on every machine under the emulation, with libraries
// that can everything and with some that refuse what they may.
namespace sluice::kernels {

enum class Where { kGpu, kEmulated, kEmulatedAlone };

struct Setting {
  Where where;
  Precision precision;
};

// In each of these places, in each of these precisions.
inline std::vector<Setting> SettingsIn(std::vector<Precision> precisions,
                                       std::vector<Where> places = {
                                           Where::kGpu, Where::kEmulated,
                                           Where::kEmulatedAlone}) {
  std::vector<Setting> settings;
  for (const Precision precision : precisions) {
    for (const Where where : places) settings.push_back({where, precision});
  }
  return settings;
}

inline std::string NameOfSetting(const testing::TestParamInfo<Setting>& info) {
  const char* const kPlaces[] = {"Gpu", "Emulated", "EmulatedAlone"};
  return std::string(kPlaces[static_cast<int>(info.param.where)]) +
         NameOf(info.param.precision);
}

class CudaTest : public testing::TestWithParam<Setting> {
 protected:
  void SetUp() override {
    reference_ = MakeReferenceDevice();
    if (on_gpu()) {
      auto made = MakeCudaDevice({.precision = precision()});
      if (absl::IsNotFound(made.status())) {
        GTEST_SKIP() << "SKIPPED: " << made.status().message();
      }
      ASSERT_TRUE(made.ok()) << made.status();
      device_ = *std::move(made);
    } else {
      device_ = cuda::MakeEmulatedGpu(GetParam().where == Where::kEmulated,
                                      precision());
    }
    device_->EnterThread();
  }

  Accelerator& gpu() const { return *device_->accelerator(); }
  bool on_gpu() const { return GetParam().where == Where::kGpu; }
  Precision precision() const { return GetParam().precision; }

  // Tensor cores round towards zero when they add, by twice as much (Fasi,
  // Higham, Mikaitis, Pranesh 2021), and leave out what TF32 does not have. The
  // others are the types' unit roundoffs; FP16's denormal numbers are 2^-24
  // apart.
  ProductRounding rounding() const {
    switch (precision()) {
      case Precision::kFp32:
        return {};
      case Precision::kTf32:
        return {.factor = 0x1p-10, .sum = 2 * kUnit};
      case Precision::kBf16:
        return {.factor = 0x1p-8, .sum = 2 * kUnit};
      case Precision::kFp16:
        return {.factor = 0x1p-11, .tiny = 0x1p-25, .sum = 2 * kUnit};
    }
    return {};
  }

  // Values as activations of the device hold them.
  std::vector<float> Rounded(std::vector<float> values) const {
    return RoundedTo(precision(), std::move(values));
  }

  // As activations.
  StoredRounding stored() const {
    if (!Is16Bit(precision())) return {};
    return {.factor = rounding().factor, .tiny = rounding().tiny};
  }

  // Whether the case takes too long where the GPU is emulated.
  bool TooLarge(int64_t floats) const { return !on_gpu() && floats > 20000; }

  std::unique_ptr<Device> device_;
  std::unique_ptr<Device> reference_;
};

#define SLUICE_CUDA_TEST_SUITE(Suite)                                         \
  INSTANTIATE_TEST_SUITE_P(Devices, Suite,                                    \
                           testing::ValuesIn(SettingsIn({Precision::kFp32})), \
                           NameOfSetting)

// For suites whose results depend on it.
#define SLUICE_CUDA_PRECISIONS_TEST_SUITE(Suite)                           \
  INSTANTIATE_TEST_SUITE_P(                                                \
      Devices, Suite,                                                      \
      testing::ValuesIn(SettingsIn({Precision::kFp32, Precision::kTf32,    \
                                    Precision::kBf16, Precision::kFp16})), \
      NameOfSetting)

// For those of them that ask nothing of a library: emulated once.
#define SLUICE_CUDA_OWN_KERNELS_TEST_SUITE(Suite)                        \
  INSTANTIATE_TEST_SUITE_P(                                              \
      Devices, Suite,                                                    \
      testing::ValuesIn(SettingsIn({Precision::kFp32, Precision::kTf32,  \
                                    Precision::kBf16, Precision::kFp16}, \
                                   {Where::kGpu, Where::kEmulated})),    \
      NameOfSetting)

}  // namespace sluice::kernels

#endif  // SLUICE_KERNELS_CUDA_TESTING_CUDA_TESTING_H_
