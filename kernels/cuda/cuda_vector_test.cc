// Arithmetic on vectors of the CUDA device: on the machine's GPU where there is
// one, and emulated.
#include <vector>

#include "gtest/gtest.h"
#include "kernels/cuda/testing/cuda_testing.h"
#include "kernels/testing/vector_runs.h"

namespace sluice::kernels {
namespace {

class CudaVectorTest : public CudaTest {
 protected:
  std::vector<VectorCase> Cases() const {
    std::vector<VectorCase> cases;
    for (const VectorCase& c : VectorCases()) {
      if (!TooLarge(c.size)) cases.push_back(c);
    }
    return cases;
  }
};
SLUICE_CUDA_TEST_SUITE(CudaVectorTest);

TEST_P(CudaVectorTest, ScaleAndAddTouchTheirRangesAloneWithTheFormulasBits) {
  for (const VectorCase& c : Cases()) {
    for (const auto& [x, y] : {std::pair{0, 0}, {1, 0}, {0, 2}, {3, 3}}) {
      ExpectScaleAndAddAreTheirFormulas(device_.get(), c, x, y);
    }
  }
}

TEST_P(CudaVectorTest, RangesMayLieFarBehindTheBeginning) {
  ExpectRangesFarBehindAreComputed(device_.get());
}

TEST_P(CudaVectorTest, AddWithTheNegativeRateIsAStepOfSgd) {
  ExpectAddIsAStepOfSgd(device_.get());
}

TEST_P(CudaVectorTest, SumsOfSquaresHaveTheSameBitsWhateverTheirAlignment) {
  for (const VectorCase& c : Cases()) {
    const double sum = ExpectSumOfSquares(device_.get(), c, 0);
    EXPECT_EQ(ExpectSumOfSquares(device_.get(), c, 1), sum) << c.name;
  }
}

TEST_P(CudaVectorTest, ASumOfSquaresIsFiniteWhereEveryFloatIsAndOnlyThere) {
  for (const VectorCase& c : Cases()) {
    if (c.floats() > 0 && c.ranges.size() < 10) {
      ExpectNonFiniteWhereAFloatIs(device_.get(), c);
    }
  }
}

TEST_P(CudaVectorTest, WithoutRangesNothingHappensAndTheSumIsZero) {
  const auto op = *device_->PrepareVector({});
  EXPECT_TRUE(op->Scale({0, 7}, 2, nullptr, nullptr).ok());
  EXPECT_TRUE(op->Add({0, 7}, 2, nullptr, nullptr).ok());
  EXPECT_EQ(*op->SumOfSquares(nullptr), 0);
}

TEST_P(CudaVectorTest, ASumThatIsNotToBeWaitedForIsRefusedByName) {
  const auto op = *device_->PrepareVector({{1, 3}, {5, 9000}});
  const Floats x(device_.get(), std::vector<float>(9000, 1));
  const auto refused =
      gpu().Record([&] { return op->SumOfSquares(x.data()).status(); });
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(refused.status().message(),
            "vector of 2 ranges, 8997 floats: scratch memory of 64 bytes "
            "cannot be had while recording");
  // Between recordings.
  EXPECT_EQ(*op->SumOfSquares(x.data()), 8997);
}

}  // namespace
}  // namespace sluice::kernels
