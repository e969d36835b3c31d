#ifndef SLUICE_KERNELS_CPU_CPU_TESTING_H_
#define SLUICE_KERNELS_CPU_CPU_TESTING_H_

#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/cpu/cpu_device.h"

// For the tests of the CPU device under each ceiling.
namespace sluice::kernels {

// Half the distance from 1 to the next float: the relative error of one
// operation.
inline constexpr double kUnit = 1.0 / (1 << 24);

// The build compiles these tests once for each ceiling: a process has one.
inline constexpr auto kIsa = CpuOptions::InstructionSet::SLUICE_TEST_ISA;

inline std::unique_ptr<Device> Cpu(int threads = 1) {
  auto device = MakeCpuDevice({threads, kIsa});
  EXPECT_TRUE(device.ok()) << device.status();
  (*device)->EnterThread();
  return *std::move(device);
}

inline void ExpectNear(const std::vector<float>& got,
                       const std::vector<float>& want,
                       const std::function<double(size_t)>& tolerance,
                       const std::string& what) {
  ASSERT_EQ(got.size(), want.size()) << what;
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_LE(std::abs(static_cast<double>(got[i]) - want[i]), tolerance(i))
        << what << "[" << i << "]: got " << got[i] << ", want " << want[i];
  }
}

inline bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * 4) == 0);
}

}  // namespace sluice::kernels

#endif  // SLUICE_KERNELS_CPU_CPU_TESTING_H_
