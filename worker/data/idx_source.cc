#include "worker/data/idx_source.h"

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/idx_file.h"
#include "common/sha256.h"
#include "common/status_macros.h"

namespace sluice {
namespace {

// What each of the 256 pixel values becomes.
using PixelTable = std::array<float, 256>;

PixelTable MakePixelTable(const proto::Idx& idx) {
  PixelTable table;
  for (int p = 0; p < 256; ++p) {
    table[p] = NormalisedPixel(idx, p);
  }
  return table;
}

class IdxSource final : public DataSource {
 public:
  // REQUIRES: a label for every image.
  IdxSource(IdxFile images, IdxFile labels, const PixelTable& table)
      : height_(images.shape[1]),
        width_(images.shape[2]),
        pixels_(height_ * width_),
        images_(std::move(images.values)),
        labels_(std::move(labels.values)),
        table_(table) {}

  int64_t size() const override { return static_cast<int64_t>(labels_.size()); }

  std::string Digest() const override {
    // The shape too: as many pixels can be cut into images in several ways.
    Sha256 sha;
    sha.Update(absl::StrCat(size(), " images of ", height_, "x", width_, "\n"));
    sha.Update(images_);
    sha.Update(labels_);
    return sha.Hex();
  }

  void Gather(absl::Span<const int64_t> indices, Batch* batch) const override {
    batch->samples = static_cast<int64_t>(indices.size());
    batch->inputs.resize(indices.size() * pixels_);
    batch->labels.resize(indices.size());
    batch->targets.clear();
    float* to = batch->inputs.data();
    for (size_t i = 0; i < indices.size(); ++i) {
      SLUICE_CHECK(indices[i] >= 0 && indices[i] < size());
      const uint8_t* from = images_.data() + indices[i] * pixels_;
      for (int64_t p = 0; p < pixels_; ++p) *to++ = table_[from[p]];
      batch->labels[i] = labels_[indices[i]];
    }
  }

 private:
  int64_t height_, width_;
  int64_t pixels_;               // Of one image.
  std::vector<uint8_t> images_;  // (samples, height, width)
  std::vector<uint8_t> labels_;  // (samples)
  PixelTable table_;
};

}  // namespace

float NormalisedPixel(const proto::Idx& idx, int pixel) {
  return static_cast<float>((pixel / 255.0 - idx.mean()) / idx.deviation());
}

absl::StatusOr<std::unique_ptr<DataSource>> OpenIdx(const proto::Idx& idx,
                                                    Split split) {
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
  return std::make_unique<IdxSource>(std::move(images), std::move(labels),
                                     MakePixelTable(idx));
}

}  // namespace sluice
