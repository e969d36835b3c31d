#ifndef SLUICE_KERNELS_CPU_CPU_TESTING_H_
#define SLUICE_KERNELS_CPU_CPU_TESTING_H_

#include <memory>
#include <utility>

#include "gtest/gtest.h"
#include "kernels/cpu/cpu_device.h"
#include "kernels/testing/comparison.h"

// For the tests of the CPU device under each ceiling.
namespace sluice::kernels {

// The build compiles these tests once for each ceiling: a process has one.
inline constexpr auto kIsa = InstructionSet::SLUICE_TEST_ISA;

inline std::unique_ptr<Device> Cpu(int threads = 1) {
  auto device = MakeCpuDevice({threads, kIsa});
  EXPECT_TRUE(device.ok()) << device.status();
  (*device)->EnterThread();
  return *std::move(device);
}

}  // namespace sluice::kernels

#endif  // SLUICE_KERNELS_CPU_CPU_TESTING_H_
