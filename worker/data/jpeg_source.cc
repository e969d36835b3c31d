// Whoever decodes takes the next image of the mini-batch that nobody has. What
// an image becomes depends on its place in the mini-batch alone, and so does
// the error that is returned, which is that of the first damaged one.
#include <atomic>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/formats/image_list.h"
#include "common/random.h"
#include "common/status_macros.h"
#include "worker/data/jpeg_crop.h"
#include "worker/data/jpeg_decoder.h"
#include "worker/data/readers.h"
#include "worker/data/resize.h"

namespace sluice {
namespace {

// Damaged images one behind the other after which something else is wrong.
constexpr int kMostDamaged = 100;

// Of random numbers: no epoch's (batch_samples.cc).
constexpr uint64_t kOrderStream = ~uint64_t{0};

// A list is in the order of its classes. Training samples are not, so that each
// STATIC partition, which has consecutive ones, has images of all classes.
class JpegSource final : public DataSource {
 public:
  JpegSource(const proto::Data& data, ImageList images, Split split,
             uint64_t seed, ReadOptions options)
      : jpeg_(data.jpeg()),
        images_(std::move(images)),
        trains_(split == Split::kTrain),
        order_(seed, kOrderStream, images_.size()),
        seed_(seed),
        mirrors_(trains_ && data.augmentation().horizontal_flip()),
        options_(std::move(options)),
        decodes_(options_.inputs || jpeg_.on_damage() == proto::Jpeg::SKIP) {
    if (trains_ && data.augmentation().has_random_resized_crop()) {
      random_crop_.emplace(seed, data.augmentation().random_resized_crop());
    }
    resize_.size = jpeg_.size();
    for (int c = 0; c < 3; ++c) {
      resize_.mean[c] = static_cast<float>(jpeg_.mean(c));
      resize_.deviation[c] = static_cast<float>(jpeg_.deviation(c));
    }
  }

  int64_t size() const override { return images_.size(); }
  std::string Digest() const override { return images_.Digest(); }
  bool worth_guessing() const override { return decodes_; }
  int64_t damaged() const override { return damaged_; }

  absl::Status Gather(absl::Span<const int64_t> indices,
                      Batch* batch) const override {
    batch->samples = static_cast<int64_t>(indices.size());
    batch->inputs.resize(decodes_ ? batch->samples * floats() : 0);
    batch->labels.resize(batch->samples);
    batch->targets.clear();
    if (!decodes_) {
      for (size_t i = 0; i < indices.size(); ++i) {
        batch->labels[i] = images_.label(ImageOf(indices[i]));
      }
      return absl::OkStatus();
    }
    std::vector<absl::Status> ends(indices.size());
    std::atomic<size_t> next = 0;
    const auto work = [&] {
      Decoding decoding(resize_);
      for (size_t i = next++; i < indices.size(); i = next++) {
        ends[i] = ReadOrReplace(indices[i], i, &decoding, batch);
      }
    };
    options_.run(batch->samples, work);
    for (const absl::Status& end : ends) SLUICE_RETURN_IF_ERROR(end);
    return absl::OkStatus();
  }

 private:
  // What a thread decodes with.
  struct Decoding {
    explicit Decoding(const Resize::Options& options) : resize(options) {}
    JpegDecoder decoder;
    Resize resize;
  };

  int64_t floats() const { return 3 * resize_.size * resize_.size; }

  int64_t ImageOf(int64_t sample) const {
    return trains_ ? static_cast<int64_t>(order_(sample)) : sample;
  }

  // Reads sample `index` to place `i` of the batch; with SKIP, in place of a
  // damaged one the next in order that is whole.
  absl::Status ReadOrReplace(int64_t index, int64_t i, Decoding* decoding,
                             Batch* batch) const {
    absl::Status read;
    for (int damaged = 0; damaged < kMostDamaged; ++damaged) {
      read = Read(index, i, decoding, batch);
      if (!absl::IsDataLoss(read) || jpeg_.on_damage() != proto::Jpeg::SKIP) {
        return read;
      }
      options_.on_damage(read, ++damaged_);
      index = (index + 1) % size();
    }
    return absl::DataLossError(
        absl::StrCat("data.jpeg.on_damage: ", kMostDamaged,
                     " images one behind the other are damaged; the last: ",
                     read.message()));
  }

  absl::Status Read(int64_t sample, int64_t i, Decoding* decoding,
                    Batch* batch) const {
    const int64_t index = ImageOf(sample);
    SLUICE_ASSIGN_OR_RETURN(const std::string bytes, images_.Bytes(index));
    const auto named = [&](const absl::Status& status) {
      return absl::Status(status.code(), absl::StrCat(images_.PathOf(index),
                                                      ": ", status.message()));
    };
    const absl::StatusOr<ImageSize> size = decoding->decoder.Begin(bytes);
    if (!size.ok()) return named(size.status());
    const int64_t position = batch->first + i;
    const absl::StatusOr<PixelView> pixels = decoding->decoder.Decode(
        random_crop_.has_value()
            ? random_crop_->Draw(batch->id, position, *size)
            : CentreCrop(*size, jpeg_.size(), jpeg_.resize()));
    if (!pixels.ok()) return named(pixels.status());
    decoding->resize.Run(*pixels,
                         mirrors_ && DrawMirrored(seed_, batch->id, position),
                         batch->inputs.data() + i * floats());
    batch->labels[i] = images_.label(index);
    return absl::OkStatus();
  }

  // Constant after construction.
  const proto::Jpeg jpeg_;
  const ImageList images_;
  const bool trains_;
  const Permutation order_;  // From a training sample to its image.
  const uint64_t seed_;
  const bool mirrors_;
  std::optional<RandomResizedCrop> random_crop_;
  Resize::Options resize_;
  const ReadOptions options_;
  // Else each sample has the label of its own image: none stands in for it.
  const bool decodes_;

  mutable std::atomic<int64_t> damaged_ = 0;
};

// That the images are as the job says, which those believe that list none.
absl::Status CheckContents(const proto::JpegContents& contents,
                           const ImageList& images, Split split) {
  const bool trains = split == Split::kTrain;
  const int64_t said =
      trains ? contents.train_samples() : contents.test_samples();
  if (images.size() != said) {
    return absl::InvalidArgumentError(absl::StrCat(
        "data.jpeg.contents.", trains ? "train" : "test", "_samples: is ", said,
        ", expected ", images.size(), ", the images that are there"));
  }
  for (int64_t i = 0; i < images.size(); ++i) {
    if (images.label(i) < contents.classes()) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "data.jpeg.contents.classes: is ", contents.classes(), ", but ",
        images.PathOf(i), " has label ", images.label(i)));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<DataSource>> OpenJpeg(const proto::Data& data,
                                                     Split split, uint64_t seed,
                                                     ReadOptions options) {
  SLUICE_ASSIGN_OR_RETURN(ImageList images, split == Split::kTrain
                                                ? ListTrainingJpegs(data.jpeg())
                                                : ListTestJpegs(data.jpeg()));
  if (images.size() == 0) {
    return absl::InvalidArgumentError(
        "data.jpeg.test: must name a folder or a tar file, is not set");
  }
  if (data.jpeg().has_contents()) {
    SLUICE_RETURN_IF_ERROR(
        CheckContents(data.jpeg().contents(), images, split));
  }
  return std::make_unique<JpegSource>(data, std::move(images), split, seed,
                                      std::move(options));
}

}  // namespace sluice
