// Images stay in memory as bytes, a quarter of their floats, and become numbers
// as a mini-batch is gathered. A pixel has 256 values, so each channel has a
// table of what they become: the same float every time, without a division for
// each pixel.
#include <array>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/formats/cifar_file.h"
#include "common/formats/idx_file.h"
#include "common/job/data_shape.h"
#include "common/sha256.h"
#include "common/status_macros.h"
#include "worker/data/readers.h"

namespace sluice {
namespace {

// The normalised value of each of the 256 pixel values.
using PixelTable = std::array<float, 256>;

struct Images {
  int64_t channels = 1;
  int64_t height = 0;
  int64_t width = 0;
  std::vector<uint8_t> pixels;  // (samples, channels, height, width)
  std::vector<uint8_t> labels;  // (samples)
};

class ImageSource final : public DataSource {
 public:
  // REQUIRES: there is a label for every image and a table for every channel.
  ImageSource(Images images, std::vector<PixelTable> tables)
      : images_(std::move(images)),
        plane_(images_.height * images_.width),
        tables_(std::move(tables)) {}

  int64_t size() const override {
    return static_cast<int64_t>(images_.labels.size());
  }

  std::string Digest() const override {
    // Includes the shape, because the same pixels can form images of several
    // shapes.
    Sha256 sha;
    sha.Update(absl::StrCat(size(), " images of ", images_.channels, "x",
                            images_.height, "x", images_.width, "\n"));
    sha.Update(images_.pixels);
    sha.Update(images_.labels);
    return sha.Hex();
  }

  absl::Status Gather(absl::Span<const int64_t> indices,
                      Batch* batch) const override {
    const int64_t image = images_.channels * plane_;
    batch->samples = static_cast<int64_t>(indices.size());
    batch->inputs.resize(indices.size() * image);
    batch->labels.resize(indices.size());
    batch->targets.clear();
    float* to = batch->inputs.data();
    for (size_t i = 0; i < indices.size(); ++i) {
      SLUICE_CHECK(indices[i] >= 0 && indices[i] < size());
      const uint8_t* from = images_.pixels.data() + indices[i] * image;
      for (const PixelTable& table : tables_) {
        for (int64_t p = 0; p < plane_; ++p) *to++ = table[*from++];
      }
      batch->labels[i] = images_.labels[indices[i]];
    }
    return absl::OkStatus();
  }

 private:
  const Images images_;
  const int64_t plane_;  // Pixels of one channel.
  const std::vector<PixelTable> tables_;
};

absl::StatusOr<Images> ReadIdx(const proto::Idx& idx, Split split) {
  const bool train = split == Split::kTrain;
  const std::string& image_path =
      train ? idx.train_images() : idx.test_images();
  const std::string& label_path =
      train ? idx.train_labels() : idx.test_labels();
  SLUICE_ASSIGN_OR_RETURN(IdxFile images, ReadIdxFile(image_path, 3));
  SLUICE_ASSIGN_OR_RETURN(IdxFile labels, ReadIdxFile(label_path, 1));
  if (labels.shape[0] != images.shape[0]) {
    return absl::InvalidArgumentError(absl::StrCat(
        label_path, ": has ", labels.shape[0], " labels, expected ",
        images.shape[0], ", one for each image of ", image_path));
  }
  return Images{1, images.shape[1], images.shape[2], std::move(images.values),
                std::move(labels.values)};
}

absl::StatusOr<Images> ReadCifar(const proto::Cifar& cifar, Split split) {
  CifarImages read;
  for (const std::string& path :
       split == Split::kTrain ? cifar.train() : cifar.test()) {
    SLUICE_RETURN_IF_ERROR(AppendCifarFile(path, cifar.classes(), &read));
  }
  return Images{kCifarChannels, kCifarSide, kCifarSide, std::move(read.pixels),
                std::move(read.labels)};
}

}  // namespace

float NormalisedPixel(const proto::Data& data, int channel, int pixel) {
  const bool idx = data.has_idx();
  const double mean = idx ? data.idx().mean() : data.cifar().mean(channel);
  const double deviation =
      idx ? data.idx().deviation() : data.cifar().deviation(channel);
  return static_cast<float>((pixel / 255.0 - mean) / deviation);
}

absl::StatusOr<std::unique_ptr<DataSource>> OpenImages(const proto::Data& data,
                                                       Split split) {
  SLUICE_CHECK(HasImages(data));
  SLUICE_ASSIGN_OR_RETURN(Images images, data.has_idx()
                                             ? ReadIdx(data.idx(), split)
                                             : ReadCifar(data.cifar(), split));
  std::vector<PixelTable> tables(images.channels);
  for (int c = 0; c < images.channels; ++c) {
    for (int p = 0; p < 256; ++p) tables[c][p] = NormalisedPixel(data, c, p);
  }
  return std::make_unique<ImageSource>(std::move(images), std::move(tables));
}

}  // namespace sluice
