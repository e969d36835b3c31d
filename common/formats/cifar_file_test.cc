#include "common/formats/cifar_file.h"

#include <fstream>

#include "common/job/data_shape.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using proto::Cifar;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string Write(const std::string& name, const std::string& bytes) {
  const std::string path = testing::TempDir() + "/" + name;
  std::ofstream(path, std::ios::binary) << bytes;
  return path;
}

// An image whose bytes all have one value, after its labels.
std::string Record(const std::string& labels, char pixel) {
  return labels + std::string(kCifarImageBytes, pixel);
}

TEST(CifarFileTest, FilesAreReadOneBehindTheOther) {
  CifarImages images;
  ASSERT_TRUE(
      AppendCifarFile(Write("one", Record("\3", 'a') + Record("\t", 'b')),
                      Cifar::CIFAR10, &images)
          .ok());
  ASSERT_TRUE(
      AppendCifarFile(Write("two", Record("\1", 'c')), Cifar::CIFAR10, &images)
          .ok());
  EXPECT_THAT(images.labels, ElementsAre(3, 9, 1));
  ASSERT_EQ(images.pixels.size(), 3 * kCifarImageBytes);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(images.pixels[i * kCifarImageBytes], 'a' + i);
    EXPECT_EQ(images.pixels[(i + 1) * kCifarImageBytes - 1], 'a' + i);
  }
}

TEST(CifarFileTest, Cifar100HasTheSuperclassBeforeTheClass) {
  const std::string path = Write("hundred", Record("\x13\x63", 'a'));
  CifarImages fine, coarse;
  ASSERT_TRUE(AppendCifarFile(path, Cifar::FINE, &fine).ok());
  ASSERT_TRUE(AppendCifarFile(path, Cifar::COARSE, &coarse).ok());
  EXPECT_THAT(fine.labels, ElementsAre(99));
  EXPECT_THAT(coarse.labels, ElementsAre(19));
  EXPECT_EQ(fine.pixels, std::vector<uint8_t>(kCifarImageBytes, 'a'));
}

TEST(CifarFileTest, ALabelThatThereIsNotIsRefusedAndNamed) {
  const std::string path =
      Write("label", Record("\2", 'a') + Record("\xa", 'b'));
  CifarImages images;
  const absl::Status status = AppendCifarFile(path, Cifar::CIFAR10, &images);
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr(path + ": image 1 has label 10, expected 0 to 9"));
}

TEST(CifarFileTest, ASizeThatIsNoNumberOfImagesIsRefused) {
  for (const std::string& bytes :
       {std::string(), std::string("\1"), Record("\1", 'a') + "x",
        Record("\1\2", 'a')}) {
    const auto images = CountCifarImages(Write("size", bytes), Cifar::CIFAR10);
    EXPECT_EQ(images.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(images.status().message()),
                HasSubstr("has " + std::to_string(bytes.size()) +
                          " bytes, expected a multiple of 3073"));
  }
}

TEST(CifarFileTest, AMissingFileIsNamed) {
  const auto images = CountCifarImages("/no/batch.bin", Cifar::FINE);
  EXPECT_EQ(images.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(images.status().message()),
              HasSubstr("/no/batch.bin"));
}

TEST(DataShapeTest, CifarCountsTheImagesOfAllFiles) {
  proto::Data data;
  data.mutable_cifar()->add_train(Write("a", Record("\1", 'a')));
  data.mutable_cifar()->add_train(
      Write("b", Record("\1", 'a') + Record("\2", 'b')));
  const auto train_only = ReadDataShape(data);
  ASSERT_TRUE(train_only.ok()) << train_only.status();
  EXPECT_EQ(train_only->train_samples, 3);
  EXPECT_EQ(train_only->test_samples, 0);
  EXPECT_THAT(train_only->input_shape, ElementsAre(3, 32, 32));
  EXPECT_TRUE(train_only->classification);
  data.mutable_cifar()->add_test(Write("c", Record("\1", 'a')));
  EXPECT_EQ(ReadDataShape(data)->test_samples, 1);
}

}  // namespace
}  // namespace sluice
