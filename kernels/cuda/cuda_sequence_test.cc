// Embedding and layer norm of the CUDA device against the reference, and their
// bits.
#include <cmath>
#include <limits>

#include "gtest/gtest.h"
#include "kernels/cuda/testing/cuda_testing.h"
#include "kernels/testing/sequence_runs.h"

namespace sluice::kernels {
namespace {

class CudaSequenceTest : public CudaTest {
 protected:
  bool TooLargeFor(const EmbeddingCase& c) const {
    return TooLarge(c.size()) || TooManyBlocks(c.shape.vocabulary);
  }
  bool TooLargeFor(const LayerNormCase& c) const {
    const int64_t groups = c.samples * c.shape.rows * c.shape.groups;
    return TooLarge(c.size()) || TooManyBlocks(groups / cuda::kWarpsOfBlock);
  }
  // An emulated block costs as much as some thousand floats. What the blocks
  // are does not depend on the precision, so a few are enough of the others.
  bool TooManyBlocks(int64_t blocks) const {
    return TooLarge(blocks * (precision() == Precision::kFp32 ? 64 : 1024));
  }

  // What a case is given.
  EmbeddingRun Arguments(const EmbeddingCase& c) const {
    EmbeddingRun run = EmbeddingArguments(c);
    run.dy = Rounded(run.dy);
    return run;
  }
  LayerNormRun Arguments(const LayerNormCase& c) const {
    LayerNormRun run = LayerNormArguments(c);
    run.x = Rounded(run.x);
    run.dy = Rounded(run.dy);
    return run;
  }
};
SLUICE_CUDA_OWN_KERNELS_TEST_SUITE(CudaSequenceTest);

// Each runs both directions on a device that has activations in `precision`;
// every array begins `offset` numbers after a multiple of 256 bytes. Outputs
// hold NaN before, which must not shine through.
void Execute(Device* device, Precision precision, const EmbeddingCase& c,
             int64_t offset, EmbeddingRun* run) {
  auto op = device->Prepare(c.shape, c.samples + 1);
  ASSERT_TRUE(op.ok()) << op.status();
  const Floats x(device, run->x, offset), token(device, run->token, offset),
      position(device, run->position, offset),
      added(device, run->before, offset);
  const Activations dy(device, precision, run->dy, offset);
  const auto y = Activations::Unwritten(device, precision, c.size(), offset);
  const auto dtoken = Floats::Unwritten(device, c.shape.token_size(), offset);
  const auto dposition =
      Floats::Unwritten(device, c.shape.position_size(), offset);
  ASSERT_TRUE((*op)
                  ->Forward(c.samples, x.data(), token.data(), position.data(),
                            y.data())
                  .ok());
  ASSERT_TRUE((*op)
                  ->Backward(c.samples, x.data(), dy.data(), false,
                             dtoken.data(), dposition.data())
                  .ok());
  run->dposition = dposition.Read();
  ASSERT_TRUE((*op)
                  ->Backward(c.samples, x.data(), dy.data(), true, added.data(),
                             dposition.data())
                  .ok());
  EXPECT_TRUE(SameBits(dposition.Read(), run->dposition));
  run->y = y.Read();
  run->dtoken = dtoken.Read();
  run->added = added.Read();
}

void Execute(Device* device, Precision precision, const LayerNormCase& c,
             int64_t offset, LayerNormRun* run) {
  auto op = device->Prepare(c.shape, c.samples + 1);
  ASSERT_TRUE(op.ok()) << op.status();
  const auto images = [&](const std::vector<float>& values) {
    return Activations(device, precision, values, offset, c.shape.features,
                       c.shape.pixels);
  };
  const std::vector<float> unwritten(c.size(), std::nanf(""));
  const auto x = images(run->x), dy = images(run->dy);
  const Floats gamma(device, run->gamma, offset),
      beta(device, run->beta, offset);
  const auto y = images(unwritten), dx = images(unwritten);
  const auto dgamma = Floats::Unwritten(device, c.shape.features, offset);
  const auto dbeta = Floats::Unwritten(device, c.shape.features, offset);
  ASSERT_TRUE(
      (*op)
          ->Forward(c.samples, x.data(), gamma.data(), beta.data(), y.data())
          .ok());
  ASSERT_TRUE((*op)
                  ->Backward(c.samples, x.data(), gamma.data(), dy.data(),
                             dx.data(), dgamma.data(), dbeta.data())
                  .ok());
  run->y = y.Read();
  run->dx = dx.Read();
  run->dgamma = dgamma.Read();
  run->dbeta = dbeta.Read();
  // Without dx the same.
  ASSERT_TRUE((*op)
                  ->Backward(c.samples, x.data(), gamma.data(), dy.data(),
                             nullptr, dbeta.data(), dgamma.data())
                  .ok());
  EXPECT_TRUE(SameBits(dbeta.Read(), run->dgamma));
  EXPECT_TRUE(SameBits(dgamma.Read(), run->dbeta));
}

TEST_P(CudaSequenceTest, EmbeddingAgreesWithTheReference) {
  for (const EmbeddingCase& c : EmbeddingCases()) {
    if (TooLargeFor(c)) continue;
    SCOPED_TRACE(c.name);
    EmbeddingRun got = Arguments(c), want = got, moved = got;
    Execute(device_.get(), precision(), c, 0, &got);
    Execute(reference_.get(), Precision::kFp32, c, 0, &want);
    want.y = Rounded(want.y);
    ExpectWithinRounding(c, got, want);
    Execute(device_.get(), precision(), c, 1, &moved);
    ExpectSameBits(got, moved);
  }
}

TEST_P(CudaSequenceTest, LayerNormAgreesWithTheReference) {
  for (const LayerNormCase& c : LayerNormCases()) {
    if (TooLargeFor(c)) continue;
    SCOPED_TRACE(c.name);
    LayerNormRun got = Arguments(c), want = got, moved = got;
    Execute(device_.get(), precision(), c, 0, &got);
    Execute(reference_.get(), Precision::kFp32, c, 0, &want);
    // Sums are in double: one rounding.
    ExpectWithinRounding(c, kUnit, got, want, stored());
    // Four of 16 bits are aligned to 8 bytes.
    for (int64_t offset : {1, 4}) {
      Execute(device_.get(), precision(), c, offset, &moved);
      ExpectSameBits(got, moved);
    }
  }
}

TEST_P(CudaSequenceTest, NanReachesTheOutput) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Floats gamma(device_.get(), std::vector<float>(4, 1)),
      beta(device_.get(), std::vector<float>(4, 0));
  std::vector<float> values(12, 1);
  values[6] = nan;
  const Activations x(device_.get(), precision(), values);
  const auto y = Activations::Unwritten(device_.get(), precision(), 12);
  ASSERT_TRUE((*device_->Prepare(LayerNormShape{3, 4, 1e-5}, 1))
                  ->Forward(1, x.data(), gamma.data(), beta.data(), y.data())
                  .ok());
  const auto normed = y.Read();
  EXPECT_FALSE(std::isnan(normed[0]));
  EXPECT_TRUE(std::isnan(normed[4]));
}

}  // namespace
}  // namespace sluice::kernels
