// Arithmetic on vectors of the reference and of the CPU device.
#include <memory>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/cpu/cpu_device.h"
#include "kernels/reference/reference_device.h"
#include "kernels/testing/vector_runs.h"

namespace sluice::kernels {
namespace {

std::unique_ptr<Device> Cpu(int threads) {
  auto device = MakeCpuDevice({threads, {}});
  EXPECT_TRUE(device.ok()) << device.status();
  return *std::move(device);
}

// Each is to be entered right before it computes: a thread is in one at a time.
std::vector<std::unique_ptr<Device>> Devices() {
  std::vector<std::unique_ptr<Device>> devices;
  devices.push_back(MakeReferenceDevice());
  for (const int threads : {1, 3}) devices.push_back(Cpu(threads));
  return devices;
}

TEST(VectorOpTest, ScaleAndAddTouchTheirRangesAloneWithTheBitsOfTheFormula) {
  for (const auto& device : Devices()) {
    SCOPED_TRACE(device->Description());
    device->EnterThread();
    for (const VectorCase& c : VectorCases()) {
      for (const int64_t offset : {0, 1, 3}) {
        ExpectScaleAndAddAreTheirFormulas(device.get(), c, offset, 2 * offset);
      }
    }
  }
}

TEST(VectorOpTest, RangesMayLieFarBehindTheBeginning) {
  for (const auto& device : Devices()) {
    device->EnterThread();
    ExpectRangesFarBehindAreComputed(device.get());
  }
}

TEST(VectorOpTest, AddWithTheNegativeRateIsAStepOfSgd) {
  for (const auto& device : Devices()) {
    device->EnterThread();
    ExpectAddIsAStepOfSgd(device.get());
  }
}

TEST(VectorOpTest, SumsOfSquaresHaveTheSameBitsForEveryNumberOfThreads) {
  for (const VectorCase& c : VectorCases()) {
    std::vector<double> sums;
    for (const int threads : {1, 2, 3, 4}) {
      const auto device = Cpu(threads);
      device->EnterThread();
      for (const int64_t offset : {0, 1}) {
        sums.push_back(ExpectSumOfSquares(device.get(), c, offset));
      }
    }
    for (const double sum : sums) EXPECT_EQ(sum, sums[0]) << c.name;
  }
}

TEST(VectorOpTest, TheReferenceAddsUpTheSquaresInTheRanges) {
  const auto device = MakeReferenceDevice();
  device->EnterThread();
  for (const VectorCase& c : VectorCases()) {
    ExpectSumOfSquares(device.get(), c, 0);
  }
}

TEST(VectorOpTest, ASumOfSquaresIsFiniteWhereEveryFloatIsAndOnlyThere) {
  for (const auto& device : Devices()) {
    device->EnterThread();
    for (const VectorCase& c : VectorCases()) {
      if (c.floats() > 0 && c.size < 100000) {
        ExpectNonFiniteWhereAFloatIs(device.get(), c);
      }
    }
  }
}

TEST(VectorOpTest, WithoutRangesNothingHappensAndTheSumIsZero) {
  for (const auto& device : Devices()) {
    device->EnterThread();
    const auto op = *device->PrepareVector({});
    EXPECT_TRUE(op->Scale({0, 7}, 2, nullptr, nullptr).ok());
    EXPECT_TRUE(op->Add({0, 7}, 2, nullptr, nullptr).ok());
    EXPECT_EQ(*op->SumOfSquares(nullptr), 0);
  }
}

}  // namespace
}  // namespace sluice::kernels
