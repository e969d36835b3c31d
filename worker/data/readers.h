#ifndef SLUICE_WORKER_DATA_READERS_H_
#define SLUICE_WORKER_DATA_READERS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/job.pb.h"
#include "worker/data/data_source.h"

// What OpenDataSource chooses from, one file each.
namespace sluice {

// ---- Images of IDX and CIFAR files: image_source.cc

// The normalised value of a pixel (0 to 255) of a channel: (pixel / 255 - mean)
// / deviation. `data`, here and below, has its defaults filled in and a reader
// of images.
float NormalisedPixel(const proto::Data& data, int channel, int pixel);

// Reads images and labels of one split into memory, with one byte per pixel.
// Pixels are normalised when they are gathered. Errors are those of
// OpenDataSource.
absl::StatusOr<std::unique_ptr<DataSource>> OpenImages(const proto::Data& data,
                                                       Split split);

// ---- JPEG images that are read when they are needed: jpeg_source.cc

// Lists the images of one split. A mini-batch's are decoded when it is
// gathered, and those of training varied as data.augmentation says: a pure
// function of the images, (seed, mini-batch, position). Errors are those of
// OpenDataSource; those of Gather name the image.
absl::StatusOr<std::unique_ptr<DataSource>> OpenJpeg(const proto::Data& data,
                                                     Split split, uint64_t seed,
                                                     ReadOptions options);

// ---- Text: text_source.cc

// Reads one split's text into memory, as bytes. `text` has its defaults filled
// in. Inputs are bytes and labels the bytes that follow them, both (samples,
// length). Errors are those of OpenDataSource.
absl::StatusOr<std::unique_ptr<DataSource>> OpenText(const proto::Text& text,
                                                     Split split);

// ---- Generated images: synthetic_images.cc

// Images with the shape and classes of `options`, whose defaults are filled in.
// A sample is generated when it is gathered, from (seed, split, sample). The
// classes' patterns are kept in memory.
std::unique_ptr<DataSource> MakeSyntheticImages(
    const proto::SyntheticImages& options, Split split, uint64_t seed);

// ---- Generated points near a line: linear_regression.cc

// A data set whose optimum is known: y = x w* + noise, with standard normal x
// and w* and normal noise. Each number is keyed by (seed, split, sample).
std::unique_ptr<DataSource> MakeLinearRegression(
    const proto::LinearRegression& options, Split split, uint64_t seed);

// The true weights w*, (features). If `noise` is 0, a dense layer of one unit
// with these weights and bias 0 has a loss of 0, up to rounding.
std::vector<float> LinearRegressionOptimum(
    const proto::LinearRegression& options, uint64_t seed);

}  // namespace sluice

#endif  // SLUICE_WORKER_DATA_READERS_H_
