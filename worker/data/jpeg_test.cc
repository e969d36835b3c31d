#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/data/jpeg_crop.h"
#include "worker/data/jpeg_decoder.h"
#include "worker/data/resize.h"
#include "worker/data/testing/jpeg_writer.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Image {
  std::vector<uint8_t> rgb;  // (height, width, 3)
  int64_t height = 0;
  int64_t width = 0;
};

Image Copy(const PixelView& pixels) {
  Image image{{}, pixels.height, pixels.width};
  for (int64_t y = 0; y < pixels.height; ++y) {
    for (int64_t x = 0; x < pixels.width; ++x) {
      for (int c = 0; c < 3; ++c) image.rgb.push_back(pixels.at(y, x)[c]);
    }
  }
  return image;
}

Image Decode(const std::string& jpeg, const Rectangle& crop,
             JpegDecoder* decoder) {
  EXPECT_TRUE(decoder->Begin(jpeg).ok());
  const auto pixels = decoder->Decode(crop);
  EXPECT_TRUE(pixels.ok()) << pixels.status().message().data();
  return Copy(*pixels);
}

Image DecodeAll(const std::string& jpeg, JpegDecoder* decoder) {
  const auto size = decoder->Begin(jpeg);
  EXPECT_TRUE(size.ok()) << size.status().message().data();
  return Copy(*decoder->Decode({0, 0, size->height, size->width}));
}

TEST(JpegDecoderTest, FlatColoursComeBack) {
  JpegDecoder decoder;
  const auto flat = [](std::vector<uint8_t> pixel) {
    std::vector<uint8_t> values;
    for (int i = 0; i < 16 * 16; ++i) {
      values.insert(values.end(), pixel.begin(), pixel.end());
    }
    return WriteJpeg(values, 16, 16,
                     {.channels = static_cast<int>(pixel.size())});
  };
  const auto seen = [&](const std::string& jpeg) {
    const Image image = DecodeAll(jpeg, &decoder);
    return std::vector<int>(image.rgb.begin(), image.rgb.begin() + 3);
  };
  const auto near = [](int value) {
    return ::testing::AllOf(::testing::Ge(value - 3), ::testing::Le(value + 3));
  };
  EXPECT_THAT(seen(flat({200, 100, 50})),
              ElementsAre(near(200), near(100), near(50)));
  EXPECT_THAT(seen(flat({90})), ElementsAre(near(90), near(90), near(90)));
  // Light that passes cyan, magenta and yellow, dimmed by black: libjpeg writes
  // CMYK with Adobe's marker.
  EXPECT_THAT(seen(flat({200, 100, 50, 128})),
              ElementsAre(near(100), near(50), near(25)));
}

// Whatever the place of the crop in the blocks of 8 or 16 pixels, and whichever
// neighbours chroma is interpolated from.
TEST(JpegDecoderTest, ACropHasThePixelsOfTheWhole) {
  JpegDecoder decoder;
  for (const bool halves : {true, false}) {
    for (const bool progressive : {true, false}) {
      const std::string jpeg = WritePicture(
          75, 101, 3, {.halves_chroma = halves, .progressive = progressive});
      const Image whole = DecodeAll(jpeg, &decoder);
      ASSERT_EQ(whole.rgb.size(), 75 * 101 * 3);
      for (int64_t left = 0; left < 60; left += 3) {
        for (int64_t top = 0; top < 40; top += 5) {
          const Rectangle crop = {top, left, 1 + (left * 7 + top) % 34,
                                  1 + (left + top * 11) % 40};
          const Image part = Decode(jpeg, crop, &decoder);
          for (int64_t y = 0; y < crop.height; ++y) {
            const auto row = whole.rgb.begin() + ((top + y) * 101 + left) * 3;
            ASSERT_TRUE(std::equal(row, row + crop.width * 3,
                                   part.rgb.begin() + y * crop.width * 3))
                << "halves " << halves << " progressive " << progressive
                << " top " << top << " left " << left << " height "
                << crop.height << " width " << crop.width << " row " << y;
          }
        }
      }
    }
  }
}

// As some programs leave them: it ends well, and its blocks lack detail, which
// the library would smooth over with what lies beside them.
TEST(JpegDecoderTest, ACropOfAnImageWithFewScansHasThePixelsOfTheWhole) {
  std::string jpeg = WritePicture(64, 64, 2, {.progressive = true});
  size_t scan = jpeg.find("\xff\xda");
  for (int i = 0; i < 3; ++i) scan = jpeg.find("\xff\xda", scan + 2);
  ASSERT_NE(scan, std::string::npos);
  jpeg = jpeg.substr(0, jpeg.rfind("\xff\xc4", scan)) + "\xff\xd9";
  JpegDecoder decoder;
  const Image whole = DecodeAll(jpeg, &decoder);
  const Image part = Decode(jpeg, {24, 24, 8, 8}, &decoder);
  for (int64_t y = 0; y < 8; ++y) {
    const auto row = whole.rgb.begin() + ((24 + y) * 64 + 24) * 3;
    EXPECT_TRUE(std::equal(row, row + 24, part.rgb.begin() + y * 24)) << y;
  }
}

TEST(JpegDecoderTest, WhatLosesNoPixelIsNoDamage) {
  JpegDecoder decoder;
  const std::string jpeg = WritePicture(16, 16, 1);
  const Image whole = DecodeAll(jpeg, &decoder);
  std::string revision = jpeg;
  revision[jpeg.find("JFIF") + 5] = 2;
  EXPECT_EQ(DecodeAll(revision, &decoder).rgb, whole.rgb);
  std::string selection = jpeg;  // The last coefficient of the scan.
  selection[jpeg.find("\xff\xda") + 12] = 0;
  EXPECT_EQ(DecodeAll(selection, &decoder).rgb, whole.rgb);
}

TEST(JpegDecoderTest, DamageIsAnErrorAndTheNextImageIsWhole) {
  JpegDecoder decoder;
  const std::string jpeg = WritePicture(64, 64, 1);
  const Image whole = DecodeAll(jpeg, &decoder);
  EXPECT_EQ(decoder.Begin("").status().code(), absl::StatusCode::kDataLoss);
  const auto png = decoder.Begin("\x89PNG\r\n\x1a\n and more");
  EXPECT_EQ(png.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(png.status().message()), HasSubstr("Not a JPEG"));
  for (const size_t kept : {20, 300, 700, static_cast<int>(jpeg.size()) - 40}) {
    const std::string cut = jpeg.substr(0, kept);
    absl::Status status = decoder.Begin(cut).status();
    if (status.ok()) status = decoder.Decode({0, 0, 64, 64}).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << kept;
    EXPECT_EQ(DecodeAll(jpeg, &decoder).rgb, whole.rgb);
  }
}

TEST(JpegDecoderTest, AnImageThatClaimsToBeHugeIsRefusedBeforeItsPixels) {
  std::string jpeg = WritePicture(8, 8, 1);
  const size_t frame = jpeg.find("\xff\xc0");
  ASSERT_NE(frame, std::string::npos);
  for (int i = 5; i < 9; ++i) jpeg[frame + i] = '\xf0';
  JpegDecoder decoder;
  EXPECT_EQ(decoder.Begin(jpeg).status().message(),
            "61680 x 61680 pixels, expected at most 67108864");
}

// ---- Resize

Image Ramp(int64_t height, int64_t width) {
  Image image{{}, height, width};
  for (int64_t i = 0; i < height * width; ++i) {
    for (int c = 0; c < 3; ++c) image.rgb.push_back((i * 37 + c * 91) % 256);
  }
  return image;
}

std::vector<float> Resized(Resize* resize, const Image& image, int64_t size,
                           bool mirrored = false) {
  std::vector<uint8_t> pixels;
  for (size_t i = 0; i < image.rgb.size(); i += 3) {
    pixels.insert(pixels.end(),
                  {image.rgb[i], image.rgb[i + 1], image.rgb[i + 2], 255});
  }
  std::vector<float> resized(3 * size * size);
  resize->Run(
      {pixels.data(), image.width * kPixelBytes, image.height, image.width},
      mirrored, resized.data());
  return resized;
}

TEST(ResizeTest, AnImageOfTheRightSizeIsOnlyNormalised) {
  const Image image = Ramp(5, 5);
  Resize resize({.size = 5, .mean = {0.5, 0.25, 0}, .deviation = {0.5, 2, 1}});
  const std::vector<float> got = Resized(&resize, image, 5);
  const std::vector<float> mirrored = Resized(&resize, image, 5, true);
  const float mean[] = {0.5, 0.25, 0}, deviation[] = {0.5, 2, 1};
  for (int c = 0; c < 3; ++c) {
    for (int p = 0; p < 25; ++p) {
      const float pixel = image.rgb[p * 3 + c] / 255.0f;
      // The scale is rounded, then a product and a sum.
      EXPECT_NEAR(got[c * 25 + p], (pixel - mean[c]) / deviation[c],
                  4 * 0x1p-24);
      EXPECT_EQ(mirrored[c * 25 + p / 5 * 5 + 4 - p % 5], got[c * 25 + p]);
    }
  }
}

// The formula of the header, in double.
double Exact(const Image& image, int64_t size, int c, int64_t y, int64_t x) {
  const auto weight = [&](int64_t pixels, int64_t i, int64_t j) {
    const double s = static_cast<double>(pixels) / size;
    const double f = std::max(s, 1.0);
    return std::max(0.0, 1 - std::abs((j + 0.5 - (i + 0.5) * s) / f));
  };
  double sum = 0, weights = 0;
  for (int64_t r = 0; r < image.height; ++r) {
    for (int64_t k = 0; k < image.width; ++k) {
      const double w = weight(image.height, y, r) * weight(image.width, x, k);
      weights += w;
      sum += w * image.rgb[(r * image.width + k) * 3 + c];
    }
  }
  return sum / weights / 255;
}

TEST(ResizeTest, EachPixelIsTheFormulasWhetherItShrinksOrGrows) {
  for (const auto& [height, width] : std::vector<std::pair<int, int>>{
           {1, 1}, {2, 9}, {7, 7}, {8, 3}, {31, 32}, {33, 65}}) {
    const Image image = Ramp(height, width);
    Resize resize({.size = 7});
    const std::vector<float> got = Resized(&resize, image, 7);
    for (int i = 0; i < 3 * 49; ++i) {
      // Sums of at most 2 * 5 + 1 and 2 * 10 + 1 terms.
      EXPECT_NEAR(got[i], Exact(image, 7, i / 49, i % 49 / 7, i % 7),
                  40 * 0x1p-24)
          << height << " x " << width << " at " << i;
    }
  }
}

// ---- Crops

TEST(CentreCropTest, TheCentreOfTheShorterSide) {
  const Rectangle crop = CentreCrop({400, 500}, 224, 256);
  EXPECT_EQ(crop.height, 350);
  EXPECT_EQ(crop.width, 350);
  EXPECT_EQ(crop.top, 25);
  EXPECT_EQ(crop.left, 75);
  EXPECT_EQ(CentreCrop({1, 1}, 1, 8192).height, 1);
}

TEST(RandomResizedCropTest, PartsFitAndHaveTheSharesAndRatiosThatAreAskedFor) {
  proto::RandomResizedCrop options;
  options.set_min_area(0.25);
  const RandomResizedCrop random(7, options);
  double least = 1, most = 0;
  int below_half = 0, fit = 0;
  for (int i = 0; i < 4000; ++i) {
    const Rectangle crop = random.Draw(BatchId(i / 64), i % 64, {900, 900});
    ASSERT_GE(crop.top, 0);
    ASSERT_GE(crop.left, 0);
    ASSERT_LE(crop.top + crop.height, 900);
    ASSERT_LE(crop.left + crop.width, 900);
    const double share = crop.height * crop.width / (900.0 * 900);
    const double ratio = static_cast<double>(crop.width) / crop.height;
    least = std::min(least, share);
    most = std::max(most, share);
    // These fit with any ratio, so a first attempt is never drawn again.
    fit += share < 0.75 ? 1 : 0;
    below_half += share < 0.5 ? 1 : 0;
    ASSERT_GT(ratio, 0.745);
    ASSERT_LT(ratio, 1.342);
  }
  EXPECT_NEAR(least, 0.25, 0.01);
  EXPECT_GT(most, 0.9);
  EXPECT_NEAR(static_cast<double>(below_half) / fit, 0.5, 0.03);
}

TEST(RandomResizedCropTest, ADrawIsAFunctionOfSeedMiniBatchAndPosition) {
  proto::RandomResizedCrop options;
  options.set_min_area(0.08);
  const RandomResizedCrop random(7, options), other(8, options);
  const auto draw = [](const RandomResizedCrop& crop, int batch, int position) {
    const Rectangle part = crop.Draw(BatchId(batch), position, {375, 500});
    return std::vector<int64_t>{part.top, part.left, part.height, part.width};
  };
  EXPECT_EQ(draw(random, 3, 4), draw(RandomResizedCrop(7, options), 3, 4));
  EXPECT_NE(draw(random, 3, 4), draw(random, 3, 5));
  EXPECT_NE(draw(random, 3, 4), draw(random, 4, 4));
  EXPECT_NE(draw(random, 3, 4), draw(other, 3, 4));
}

TEST(RandomResizedCropTest, WhereNothingFitsTheCentreIsTaken) {
  proto::RandomResizedCrop options;
  options.set_min_area(1);
  const RandomResizedCrop random(7, options);
  const Rectangle crop = random.Draw(BatchId(0), 0, {30, 900});
  EXPECT_EQ(crop.height, 30);
  EXPECT_EQ(crop.width, 40);
  EXPECT_EQ(crop.left, 430);
}

TEST(DrawMirroredTest, HalfAreMirrored) {
  int mirrored = 0;
  for (int i = 0; i < 1000; ++i) {
    mirrored += DrawMirrored(1, BatchId(i), 0) ? 1 : 0;
  }
  EXPECT_NEAR(mirrored, 500, 60);
}

}  // namespace
}  // namespace sluice
