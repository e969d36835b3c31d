#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/formats/cifar_file.h"
#include "common/formats/image_list.h"
#include "common/job/data_shape.h"
#include "common/job/job_checker.h"

namespace sluice {
namespace {

// Far above any use, and small enough that a product of two cannot overflow.
constexpr int kMany = 1 << 20;

// Of samples whose number the job says: in the most epochs (stop.epochs) they
// are still countable in 64 bits.
constexpr int64_t kMostSamples = int64_t{1} << 40;
static_assert(kMostSamples < std::numeric_limits<int64_t>::max() / 1'000'000);

std::string Path(const std::string& prefix, const std::string& field) {
  return absl::StrCat(prefix, ".", field);
}

void CheckIdx(const proto::Idx& idx, bool evaluated, Checker* check) {
  const auto given = [&](const char* field, const std::string& path) {
    check->Require(!path.empty(), Path("data.idx", field),
                   "must name a file, is not set");
  };
  given("train_images", idx.train_images());
  given("train_labels", idx.train_labels());
  const bool has_test =
      !idx.test_images().empty() || !idx.test_labels().empty();
  if (evaluated || has_test) {
    given("test_images", idx.test_images());
    given("test_labels", idx.test_labels());
  }
  check->Between("data.idx.mean", idx.mean(), -1e6, 1e6);
  check->AboveZero("data.idx.deviation", idx.deviation(), 1e6);
}

template <typename Paths>
void CheckFiles(const std::string& path, const Paths& paths, bool needed,
                Checker* check) {
  check->Require(!needed || !paths.empty(), path,
                 "must name a file, is not set");
  for (int i = 0; i < paths.size(); ++i) {
    check->Require(!paths[i].empty(), absl::StrCat(path, "[", i, "]"),
                   "must name a file, is empty");
  }
}

void CheckText(const proto::Text& text, bool evaluated, Checker* check) {
  CheckFiles("data.text.train", text.train(), true, check);
  CheckFiles("data.text.test", text.test(), evaluated, check);
  check->Between("data.text.length", text.length(), 1, 65536);
}

static_assert(kCifarChannels == kJpegChannels);

// Of proto::Cifar or proto::Jpeg, whose images are red, green and blue.
template <typename Reader>
void CheckColours(const std::string& prefix, const Reader& reader,
                  bool evaluated, Checker* check) {
  CheckFiles(Path(prefix, "train"), reader.train(), true, check);
  CheckFiles(Path(prefix, "test"), reader.test(), evaluated, check);
  const auto channels = [&](const char* field, int values) {
    check->Require(values == kJpegChannels, Path(prefix, field),
                   absl::StrCat("must have ", kJpegChannels,
                                " values (red, green, blue), has ", values));
  };
  channels("mean", reader.mean_size());
  channels("deviation", reader.deviation_size());
  for (int i = 0; i < reader.mean_size(); ++i) {
    check->Between(absl::StrCat(prefix, ".mean[", i, "]"), reader.mean(i), -1e6,
                   1e6);
  }
  for (int i = 0; i < reader.deviation_size(); ++i) {
    check->AboveZero(absl::StrCat(prefix, ".deviation[", i, "]"),
                     reader.deviation(i), 1e6);
  }
}

void CheckJpeg(const proto::Jpeg& jpeg, bool evaluated, Checker* check) {
  const std::string prefix = "data.jpeg";
  CheckColours(prefix, jpeg, evaluated, check);
  check->Between(Path(prefix, "size"), jpeg.size(), 1, kMostJpegSize);
  check->Between(Path(prefix, "resize"), jpeg.resize(), jpeg.size(),
                 kMostJpegResize, " (at least data.jpeg.size)");
  check->Between(Path(prefix, "threads"), jpeg.threads(), 0, 1024);
  if (!jpeg.has_contents()) return;
  const proto::JpegContents& contents = jpeg.contents();
  check->Between(Path(prefix, "contents.train_samples"),
                 contents.train_samples(), int64_t{1}, kMostSamples);
  check->Between(Path(prefix, "contents.test_samples"), contents.test_samples(),
                 int64_t{evaluated}, kMostSamples,
                 evaluated ? " with evaluation.enabled" : "");
  check->AtLeast(Path(prefix, "contents.classes"), contents.classes(), 1);
}

void CheckAugmentation(const proto::Data& data, Checker* check) {
  const std::string prefix = "data.augmentation";
  const proto::Augmentation& augmentation = data.augmentation();
  check->Require(HasImages(data) || data.has_jpeg(), prefix,
                 "needs images that are read: data.idx, data.cifar or "
                 "data.jpeg");
  check->Between(Path(prefix, "crop_padding"), augmentation.crop_padding(), 0,
                 kMany);
  check->Require(!data.has_jpeg() || augmentation.crop_padding() == 0,
                 Path(prefix, "crop_padding"),
                 absl::StrCat("must be 0 with data.jpeg, which has "
                              "random_resized_crop, is ",
                              augmentation.crop_padding()));
  if (!augmentation.has_random_resized_crop()) return;
  check->Require(data.has_jpeg(), Path(prefix, "random_resized_crop"),
                 "needs data.jpeg");
  const double area = augmentation.random_resized_crop().min_area();
  check->AboveZero(Path(prefix, "random_resized_crop.min_area"), area, 1);
}

constexpr int64_t kMostFloats = int64_t{1} << 32;

// Checks data that is generated rather than read.
void CheckSamples(const std::string& prefix, int64_t train, int64_t test,
                  double noise, bool evaluated, Checker* check) {
  check->AtLeast(Path(prefix, "train_samples"), train, 1);
  check->AtLeast(Path(prefix, "test_samples"), test, evaluated ? 1 : 0,
                 evaluated ? " with evaluation.enabled" : "");
  check->Between(Path(prefix, "noise"), noise, 0.0, 1e6);
}

void CheckSynthetic(const proto::SyntheticImages& images, bool evaluated,
                    Checker* check) {
  const std::string prefix = "data.synthetic_images";
  check->Between(Path(prefix, "channels"), images.channels(), 1, 4096);
  check->Between(Path(prefix, "height"), images.height(), 1, 4096);
  // The width defaults to the height; a missing height is reported above.
  if (images.has_width()) {
    check->Between(Path(prefix, "width"), images.width(), 1, 4096);
  }
  check->Between(Path(prefix, "classes"), images.classes(), 2, 65536);
  CheckSamples(prefix, images.train_samples(), images.test_samples(),
               images.noise(), evaluated, check);
  // In double, because sizes out of bounds could overflow; exact for valid
  // sizes.
  const double floats = static_cast<double>(images.channels()) *
                        images.height() * images.width() * images.classes();
  check->Require(
      floats <= static_cast<double>(kMostFloats), prefix,
      absl::StrFormat("channels times height times width times classes must be "
                      "at most %d, is %.0f",
                      kMostFloats, floats));
}

void CheckLinear(const proto::LinearRegression& linear, bool evaluated,
                 Checker* check) {
  const std::string prefix = "data.linear_regression";
  check->Between(Path(prefix, "features"), linear.features(), 1, kMany);
  CheckSamples(prefix, linear.train_samples(), linear.test_samples(),
               linear.noise(), evaluated, check);
  for (const int64_t samples :
       {linear.train_samples(), linear.test_samples()}) {
    check->Require(
        samples * linear.features() <= kMostFloats, prefix,
        absl::StrCat("features times samples must be at most ", kMostFloats,
                     ", is ", samples * linear.features()));
  }
}

}  // namespace

void CheckData(const proto::Data& data, bool evaluated, Checker* check) {
  switch (data.reader_case()) {
    case proto::Data::kIdx:
      CheckIdx(data.idx(), evaluated, check);
      break;
    case proto::Data::kCifar:
      CheckColours("data.cifar", data.cifar(), evaluated, check);
      break;
    case proto::Data::kJpeg:
      CheckJpeg(data.jpeg(), evaluated, check);
      break;
    case proto::Data::kText:
      CheckText(data.text(), evaluated, check);
      break;
    case proto::Data::kSyntheticImages:
      CheckSynthetic(data.synthetic_images(), evaluated, check);
      break;
    case proto::Data::kLinearRegression:
      CheckLinear(data.linear_regression(), evaluated, check);
      break;
    case proto::Data::kExternal:
      check->Between("data.external.train_samples",
                     data.external().train_samples(), int64_t{1}, kMostSamples);
      check->Between("data.external.test_samples",
                     data.external().test_samples(), int64_t{0}, kMostSamples);
      break;
    case proto::Data::READER_NOT_SET:
      check->Add(
          "data",
          "must name a reader: idx, cifar, jpeg, synthetic_images, text, "
          "linear_regression or external");
      break;
  }
  check->Between("data.batch_size", data.batch_size(), 1, kMany);
  if (data.has_augmentation()) CheckAugmentation(data, check);
}

}  // namespace sluice
