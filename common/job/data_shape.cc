// Only headers, file sizes and the labels of IDX files, a byte each, are read
// here, because every process resolves the job, and shards need no samples.
#include "common/job/data_shape.h"

#include <string>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "common/formats/cifar_file.h"
#include "common/formats/idx_file.h"
#include "common/formats/image_list.h"
#include "common/formats/text_file.h"
#include "common/status_macros.h"

namespace sluice {
namespace {

// The shape (samples, height, width) of one split. Checks that every image has
// a label.
absl::StatusOr<std::vector<int64_t>> ReadSplitShape(const std::string& images,
                                                    const std::string& labels) {
  SLUICE_ASSIGN_OR_RETURN(const std::vector<int64_t> shape,
                          ReadIdxShape(images, 3));
  SLUICE_ASSIGN_OR_RETURN(const std::vector<int64_t> label_shape,
                          ReadIdxShape(labels, 1));
  if (shape[0] != label_shape[0]) {
    return absl::InvalidArgumentError(
        absl::StrCat(labels, ": has ", label_shape[0], " labels, expected ",
                     shape[0], ", one for each image of ", images));
  }
  return shape;
}

// Makes `data` know the largest label of the file, if there is none as large.
absl::Status ReadLargestLabel(const std::string& labels, DataShape* data) {
  SLUICE_ASSIGN_OR_RETURN(const IdxFile file, ReadIdxFile(labels, 1));
  const auto largest = absl::c_max_element(file.values);
  if (*largest < data->classes) return absl::OkStatus();
  data->classes = int64_t{*largest} + 1;
  data->largest_label_at =
      absl::StrCat("sample ", largest - file.values.begin(), " of ", labels);
  return absl::OkStatus();
}

absl::StatusOr<DataShape> ReadIdx(const proto::Idx& idx) {
  DataShape data;
  SLUICE_ASSIGN_OR_RETURN(
      const std::vector<int64_t> train,
      ReadSplitShape(idx.train_images(), idx.train_labels()));
  data.train_samples = train[0];
  data.input_shape = {1, train[1], train[2]};
  SLUICE_RETURN_IF_ERROR(ReadLargestLabel(idx.train_labels(), &data));
  if (idx.test_images().empty()) return data;
  SLUICE_ASSIGN_OR_RETURN(const std::vector<int64_t> test,
                          ReadSplitShape(idx.test_images(), idx.test_labels()));
  if (test[1] != train[1] || test[2] != train[2]) {
    return absl::InvalidArgumentError(
        absl::StrCat(idx.test_images(), ": images are ", test[1], " x ",
                     test[2], ", expected ", train[1], " x ", train[2],
                     " as in ", idx.train_images()));
  }
  data.test_samples = test[0];
  SLUICE_RETURN_IF_ERROR(ReadLargestLabel(idx.test_labels(), &data));
  return data;
}

absl::StatusOr<DataShape> ReadCifar(const proto::Cifar& cifar) {
  DataShape data;
  data.input_shape = {kCifarChannels, kCifarSide, kCifarSide};
  data.classes = CifarClasses(cifar.classes());
  data.largest_label_at =
      absl::StrCat("data.cifar of ",
                   proto::Cifar::Classes_Name(cifar.classes()), " classes");
  const auto count = [&](const auto& paths) -> absl::StatusOr<int64_t> {
    int64_t images = 0;
    for (const std::string& path : paths) {
      SLUICE_ASSIGN_OR_RETURN(const int64_t in_file,
                              CountCifarImages(path, cifar.classes()));
      images += in_file;
    }
    return images;
  };
  SLUICE_ASSIGN_OR_RETURN(data.train_samples, count(cifar.train()));
  SLUICE_ASSIGN_OR_RETURN(data.test_samples, count(cifar.test()));
  return data;
}

DataShape ShapeOfContents(const proto::Jpeg& jpeg) {
  const proto::JpegContents& contents = jpeg.contents();
  DataShape data;
  data.input_shape = {kJpegChannels, jpeg.size(), jpeg.size()};
  data.train_samples = contents.train_samples();
  data.test_samples = contents.test_samples();
  data.classes = contents.classes();
  data.largest_label_at =
      absl::StrCat("data.jpeg.contents of ", contents.classes(), " classes");
  return data;
}

absl::StatusOr<DataShape> ReadJpeg(const proto::Jpeg& jpeg) {
  if (jpeg.has_contents()) return ShapeOfContents(jpeg);
  SLUICE_ASSIGN_OR_RETURN(const ImageList train, ListTrainingJpegs(jpeg));
  SLUICE_ASSIGN_OR_RETURN(const ImageList test, ListTestJpegs(jpeg));
  DataShape data;
  data.input_shape = {kJpegChannels, jpeg.size(), jpeg.size()};
  data.train_samples = train.size();
  data.test_samples = test.size();
  for (const ImageList* list : {&train, &test}) {
    for (int64_t i = 0; i < list->size(); ++i) {
      if (list->label(i) < data.classes) continue;
      data.classes = int64_t{list->label(i)} + 1;
      data.largest_label_at = list->PathOf(i);
    }
  }
  return data;
}

absl::StatusOr<DataShape> ReadText(const proto::Text& text) {
  DataShape data;
  data.input_shape = {text.length()};
  data.labels = text.length();
  data.vocabulary = kByteValues;
  SLUICE_ASSIGN_OR_RETURN(data.train_samples,
                          CountTextSamples(text.train(), text.length()));
  if (text.test().empty()) return data;
  SLUICE_ASSIGN_OR_RETURN(data.test_samples,
                          CountTextSamples(text.test(), text.length()));
  return data;
}

}  // namespace

absl::StatusOr<DataShape> ReadDataShape(const proto::Data& data) {
  switch (data.reader_case()) {
    case proto::Data::kIdx:
      return ReadIdx(data.idx());
    case proto::Data::kCifar:
      return ReadCifar(data.cifar());
    case proto::Data::kJpeg:
      return ReadJpeg(data.jpeg());
    case proto::Data::kText:
      return ReadText(data.text());
    case proto::Data::kSyntheticImages: {
      const proto::SyntheticImages& images = data.synthetic_images();
      DataShape shape;
      shape.train_samples = images.train_samples();
      shape.test_samples = images.test_samples();
      shape.input_shape = {images.channels(), images.height(), images.width()};
      shape.classes = images.classes();
      shape.largest_label_at = "data.synthetic_images";
      return shape;
    }
    case proto::Data::kLinearRegression: {
      const proto::LinearRegression& linear = data.linear_regression();
      DataShape shape;
      shape.train_samples = linear.train_samples();
      shape.test_samples = linear.test_samples();
      shape.input_shape = {linear.features()};
      shape.classification = false;
      return shape;
    }
    case proto::Data::kExternal: {
      DataShape shape;
      shape.train_samples = data.external().train_samples();
      shape.test_samples = data.external().test_samples();
      shape.classification = false;
      return shape;
    }
    case proto::Data::READER_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError(
      "data: names no reader (idx, cifar, jpeg, synthetic_images, text, "
      "linear_regression or external)");
}

}  // namespace sluice
