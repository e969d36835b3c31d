#include "worker/data/augmentation.h"

#include <cmath>
#include <map>
#include <numeric>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;

constexpr float kBackground = -9;

AugmentationOptions Images(int64_t height, int64_t width, int padding,
                           bool flip) {
  AugmentationOptions options;
  options.height = height;
  options.width = width;
  options.crop_padding = padding;
  options.horizontal_flip = flip;
  options.background = {kBackground};
  return options;
}

// Pixel values continue over the whole batch.
Batch Numbered(int64_t samples, int64_t pixels) {
  Batch batch;
  batch.samples = samples;
  batch.inputs.resize(samples * pixels);
  std::iota(batch.inputs.begin(), batch.inputs.end(), 1.0f);
  return batch;
}

// The definition: pixel (y, x) of the crop of the padded image.
std::vector<float> CropByDefinition(const std::vector<float>& image,
                                    int64_t height, int64_t width,
                                    const AugmentationDraw& draw) {
  std::vector<float> crop;
  for (int64_t y = 0; y < height; ++y) {
    for (int64_t x = 0; x < width; ++x) {
      const int64_t from_x = (draw.flip ? width - 1 - x : x) + draw.right;
      const int64_t from_y = y + draw.down;
      const bool inside =
          from_y >= 0 && from_y < height && from_x >= 0 && from_x < width;
      crop.push_back(inside ? image[from_y * width + from_x] : kBackground);
    }
  }
  return crop;
}

TEST(AugmentationTest, EveryCropAndFlipIsThatOfThePaddedImage) {
  for (const auto& [height, width, padding] :
       {std::tuple{3, 3, 2}, {5, 4, 1}, {2, 7, 1}, {1, 1, 0}, {4, 6, 3}}) {
    const Augmentation augmentation(Images(height, width, padding, true));
    Batch batch = Numbered(40, height * width);
    const std::vector<float> before = batch.inputs;
    augmentation.Apply(BatchId(3), 5, &batch);
    for (int64_t i = 0; i < 40; ++i) {
      const auto image = before.begin() + i * height * width;
      const auto now = batch.inputs.begin() + i * height * width;
      ASSERT_THAT(std::vector<float>(now, now + height * width),
                  ElementsAreArray(CropByDefinition(
                      {image, image + height * width}, height, width,
                      augmentation.Draw(BatchId(3), 5 + i))))
          << height << " x " << width << ", padding " << padding;
    }
  }
}

TEST(AugmentationTest, AllChannelsOfAnImageMoveTogetherOnTheirOwnBackground) {
  constexpr float kOther = -7;
  AugmentationOptions options = Images(3, 3, 2, true);
  options.channels = 2;
  options.background.push_back(kOther);
  Batch batch = Numbered(20, 18);
  Augmentation(options).Apply(BatchId(0), 0, &batch);
  for (size_t i = 0; i < batch.inputs.size(); i += 18) {
    for (size_t p = i; p < i + 9; ++p) {
      EXPECT_EQ(batch.inputs[p + 9],
                batch.inputs[p] == kBackground ? kOther : batch.inputs[p] + 9);
    }
  }
}

TEST(AugmentationTest, WithoutPaddingAndFlipNothingChanges) {
  Batch batch = Numbered(10, 12);
  Augmentation(Images(3, 4, 0, false)).Apply(BatchId(7), 0, &batch);
  EXPECT_EQ(batch.inputs, Numbered(10, 12).inputs);
}

TEST(AugmentationTest, AMiniBatchIsAugmentedTheSameEveryTime) {
  const Augmentation augmentation(Images(8, 8, 3, true));
  Batch first = Numbered(32, 64);
  Batch again = Numbered(32, 64);
  augmentation.Apply(BatchId(11), 0, &first);
  Augmentation(Images(8, 8, 3, true)).Apply(BatchId(11), 0, &again);
  EXPECT_EQ(first.inputs, again.inputs);
}

TEST(AugmentationTest, InPartsAMiniBatchIsAugmentedAsAtOnce) {
  const Augmentation augmentation(Images(8, 8, 3, true));
  Batch whole = Numbered(10, 64);
  augmentation.Apply(BatchId(2), 0, &whole);
  Batch part;
  part.samples = 4;
  const Batch numbered = Numbered(10, 64);
  part.inputs.assign(numbered.inputs.begin() + 6 * 64, numbered.inputs.end());
  augmentation.Apply(BatchId(2), 6, &part);
  EXPECT_THAT(part.inputs, ElementsAreArray(whole.inputs.begin() + 6 * 64,
                                            whole.inputs.end()));
}

TEST(AugmentationTest, AnotherMiniBatchAndAnotherSeedDrawOtherwise) {
  AugmentationOptions options = Images(8, 8, 3, true);
  const auto augmented = [&](int64_t mini_batch) {
    Batch batch = Numbered(32, 64);
    Augmentation(options).Apply(BatchId(mini_batch), 0, &batch);
    return batch.inputs;
  };
  const std::vector<float> first = augmented(11);
  EXPECT_NE(augmented(12), first);
  options.seed = 2;
  EXPECT_NE(augmented(11), first);
}

// Each of n draws falls into a class with probability p. Five standard
// deviations sqrt(n p (1 - p)) are exceeded once in 1.7 million classes.
void ExpectNear(int64_t count, double n, double p) {
  EXPECT_NEAR(count, n * p, 5 * std::sqrt(n * p * (1 - p)));
}

TEST(AugmentationTest, EveryOffsetIsAsLikelyAndHalfAreMirrored) {
  constexpr int kPadding = 4;
  const Augmentation augmentation(Images(28, 28, kPadding, true));
  std::map<std::pair<int, int>, int> offsets;
  int flips = 0;
  constexpr int kBatches = 1000;
  constexpr int kSamples = 81;
  for (int64_t b = 0; b < kBatches; ++b) {
    for (int64_t i = 0; i < kSamples; ++i) {
      const AugmentationDraw draw = augmentation.Draw(BatchId(b), i);
      ++offsets[{draw.down, draw.right}];
      flips += draw.flip;
    }
  }
  constexpr int kOffsets = (2 * kPadding + 1) * (2 * kPadding + 1);
  EXPECT_EQ(offsets.size(), kOffsets);
  for (const auto& [offset, count] : offsets) {
    EXPECT_LE(std::abs(offset.first), kPadding);
    EXPECT_LE(std::abs(offset.second), kPadding);
    ExpectNear(count, kBatches * kSamples, 1.0 / kOffsets);
  }
  ExpectNear(flips, kBatches * kSamples, 0.5);
}

// The values are written down, because a change of the draws would change every
// run's bits.
TEST(AugmentationTest, TheDrawsAreTheSameInEveryRelease) {
  const Augmentation augmentation(Images(28, 28, 4, true));
  std::vector<int> drawn;
  for (int64_t i = 0; i < 4; ++i) {
    const AugmentationDraw draw = augmentation.Draw(BatchId(5), i);
    drawn.insert(drawn.end(), {draw.down, draw.right, draw.flip});
  }
  EXPECT_THAT(drawn, ElementsAre(-2, -3, 0, 4, -3, 0, 0, -1, 0, 2, 2, 1));
}

}  // namespace
}  // namespace sluice
