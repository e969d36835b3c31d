// data.jpeg, from files to mini-batches.

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "common/testing/tar.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/data/data_source.h"
#include "worker/data/testing/jpeg_writer.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class JpegSourceTest : public testing::Test {
 protected:
  JpegSourceTest() : root_(testing::TempDir() + "/jpegs") {
    std::filesystem::remove_all(root_);
    std::filesystem::create_directories(root_);
    for (int i = 0; i < 8; ++i) {
      const std::string name = std::to_string(i) + ".jpg";
      files_[(i % 2 == 0 ? "even/" : "odd/") + name] =
          WritePicture(40 + i, 50 - i, i);
    }
    proto::Jpeg& jpeg = *data_.mutable_jpeg();
    jpeg.set_size(16);
    jpeg.set_resize(20);
    for (int c = 0; c < 3; ++c) {
      jpeg.add_mean(0.5);
      jpeg.add_deviation(0.25);
    }
    jpeg.set_on_damage(proto::Jpeg::FAIL);
  }

  void Augment() {
    data_.mutable_augmentation()->set_horizontal_flip(true);
    data_.mutable_augmentation()->mutable_random_resized_crop()->set_min_area(
        0.2);
  }
  std::unique_ptr<DataSource> Open(Split split = Split::kTrain) {
    if (data_.jpeg().train().empty()) {
      WriteFiles(root_ + "/train", files_);
      data_.mutable_jpeg()->add_train(root_ + "/train");
      data_.mutable_jpeg()->add_test(root_ + "/train");
    }
    auto source = OpenDataSource(
        data_, split, /*seed=*/5,
        {.on_damage =
             [this](const absl::Status& damage, int64_t total) {
               absl::MutexLock lock(&mu_);
               damages_.emplace_back(damage.message());
             },
         .run =
             [this](int64_t most, const std::function<void()>& work) {
               std::vector<std::thread> threads;
               for (int t = 0; t < threads_; ++t) threads.emplace_back(work);
               for (std::thread& thread : threads) thread.join();
             },
         .inputs = inputs_});
    EXPECT_TRUE(source.ok()) << source.status().message().data();
    return *std::move(source);
  }
  static Batch Gather(const DataSource& source,
                      const std::vector<int64_t>& indices, int64_t id = 0,
                      int64_t first = 0) {
    Batch batch;
    batch.id = BatchId(id);
    batch.first = first;
    const absl::Status status = source.Gather(indices, &batch);
    EXPECT_TRUE(status.ok()) << status.message().data();
    return batch;
  }

  const std::string root_;
  FileMap files_;  // Images 0, 2, 4, 6 of class 0, then 1, 3, 5, 7 of class 1.
  proto::Data data_;
  int threads_ = 3;
  bool inputs_ = true;
  absl::Mutex mu_;
  std::vector<std::string> damages_ ABSL_GUARDED_BY(mu_);
};

TEST_F(JpegSourceTest, AMiniBatchHasThreeChannelsOfTheSizeTheModelWants) {
  const auto source = Open(Split::kTest);
  EXPECT_EQ(source->size(), 8);
  const Batch batch = Gather(*source, {0, 7, 3});
  EXPECT_EQ(batch.samples, 3);
  EXPECT_EQ(batch.inputs.size(), 3 * 3 * 16 * 16);
  EXPECT_THAT(batch.labels, ElementsAre(0, 1, 0));
  // (pixel / 255 - 1/2) * 4
  for (const float value : batch.inputs) {
    ASSERT_GE(value, -2.001);
    ASSERT_LE(value, 2.001);
  }
  const Batch alone = Gather(*source, {3});
  EXPECT_TRUE(std::equal(alone.inputs.begin(), alone.inputs.end(),
                         batch.inputs.begin() + 2 * 3 * 16 * 16));
}

TEST_F(JpegSourceTest, ThreadsAndMicroBatchesChangeNoBit) {
  Augment();
  const std::vector<int64_t> all = {5, 1, 6, 2, 0, 7};
  const std::vector<float> whole = Gather(*Open(), all, 9).inputs;
  threads_ = 1;
  const auto source = Open();
  EXPECT_EQ(Gather(*source, all, 9).inputs, whole);
  std::vector<float> parts = Gather(*source, {5, 1, 6, 2}, 9).inputs;
  const std::vector<float> rest = Gather(*source, {0, 7}, 9, 4).inputs;
  parts.insert(parts.end(), rest.begin(), rest.end());
  EXPECT_EQ(parts, whole);
  EXPECT_NE(Gather(*source, all, 10).inputs, whole);
}

TEST_F(JpegSourceTest, OnlyTrainingImagesAreVaried) {
  const std::vector<float> plain = Gather(*Open(Split::kTest), {4}).inputs;
  Augment();
  const auto test = Open(Split::kTest);
  EXPECT_EQ(Gather(*test, {4}, 1).inputs, plain);
  EXPECT_NE(Gather(*Open(), {4}, 1).inputs, plain);
}

// STATIC partitions are consecutive samples.
TEST_F(JpegSourceTest, TrainingSamplesAreNotInTheOrderOfTheirClasses) {
  const std::vector<int32_t> labels = Gather(*Open(), {0, 1, 2, 3}).labels;
  EXPECT_THAT(labels, testing::Contains(0));
  EXPECT_THAT(labels, testing::Contains(1));
  const Batch all = Gather(*Open(), {0, 1, 2, 3, 4, 5, 6, 7});
  EXPECT_EQ(std::count(all.labels.begin(), all.labels.end(), 1), 4);
}

TEST_F(JpegSourceTest, AnArchiveHasTheBitsOfTheFolder) {
  Augment();
  const auto folder = Open();
  FileMap members;
  int i = 0;
  for (const auto& [name, jpeg] : files_) {
    const std::string key = "s" + std::to_string(i++);
    members[key + ".jpg"] = jpeg;
    members[key + ".cls"] = name.substr(0, 4) == "even" ? "0" : "1";
  }
  WriteTar(root_ + "/train.tar", members);
  data_.mutable_jpeg()->set_train(0, root_ + "/train.tar");
  const auto archive = Open();
  const std::vector<int64_t> all = {0, 1, 2, 3, 4, 5, 6, 7};
  const Batch one = Gather(*folder, all, 3), other = Gather(*archive, all, 3);
  EXPECT_EQ(one.inputs, other.inputs);
  EXPECT_EQ(one.labels, other.labels);
}

TEST_F(JpegSourceTest, DamageFailsWithTheFirstImageOfTheMiniBatchThatHasIt) {
  files_["even/2.jpg"] = "no image";
  files_["odd/5.jpg"].resize(200);
  const auto source = Open(Split::kTest);
  Batch batch;
  const absl::Status status = source->Gather({0, 6, 1, 3}, &batch);
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("/train/odd/5.jpg: Premature end"));
  EXPECT_EQ(source->damaged(), 0);
  Gather(*source, {0, 3});
}

TEST_F(JpegSourceTest, WhoTakesInputsFromElsewhereDecodesNone) {
  const std::vector<int64_t> all = {5, 1, 6, 2, 0, 7};
  const std::vector<int32_t> labels = Gather(*Open(), all).labels;
  inputs_ = false;
  threads_ = 0;
  const auto source = Open();
  const Batch batch = Gather(*source, all);
  EXPECT_EQ(batch.samples, 6);
  EXPECT_EQ(batch.labels, labels);
  EXPECT_THAT(batch.inputs, testing::IsEmpty());
  EXPECT_FALSE(source->worth_guessing());
}

// Its label is that of what stands in for it.
TEST_F(JpegSourceTest, WithSkipWhoTakesInputsFromElsewhereDecodesThem) {
  files_["even/6.jpg"] = "no image";
  data_.mutable_jpeg()->set_on_damage(proto::Jpeg::SKIP);
  inputs_ = false;
  EXPECT_THAT(Gather(*Open(Split::kTest), {2, 3}).labels, ElementsAre(0, 1));
}

TEST_F(JpegSourceTest, WithSkipTheNextWholeImageStandsInAndItIsCounted) {
  files_["even/6.jpg"] = "no image";
  files_["odd/1.jpg"] = "";
  data_.mutable_jpeg()->set_on_damage(proto::Jpeg::SKIP);
  const auto source = Open(Split::kTest);
  const Batch batch = Gather(*source, {2, 3, 4});
  EXPECT_THAT(batch.labels, ElementsAre(0, 1, 1));
  const std::vector<float> third = Gather(*source, {5}).inputs;
  const auto image = third.size();
  EXPECT_TRUE(
      std::equal(third.begin(), third.end(), batch.inputs.begin() + image));
  EXPECT_EQ(source->damaged(), 3);
  absl::MutexLock lock(&mu_);
  EXPECT_EQ(damages_.size(), 3);
  EXPECT_THAT(damages_, testing::Contains(HasSubstr("/train/even/6.jpg: Not")));
}

TEST_F(JpegSourceTest, SkippingEndsWhereNothingIsWhole) {
  for (auto& [name, jpeg] : files_) jpeg = "no image";
  data_.mutable_jpeg()->set_on_damage(proto::Jpeg::SKIP);
  const auto source = Open();
  Batch batch;
  const absl::Status status = source->Gather({0}, &batch);
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("100 images one behind the other are damaged"));
}

TEST_F(JpegSourceTest, WithoutTestImagesThereIsNothingToOpen) {
  Open();
  data_.mutable_jpeg()->clear_test();
  const auto source = OpenDataSource(data_, Split::kTest, 5);
  EXPECT_EQ(source.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(source.status().message()),
              HasSubstr("data.jpeg.test: must name a folder"));
}

TEST_F(JpegSourceTest, OtherContentsThanTheJobSaysAreRefused) {
  Open();
  proto::JpegContents& contents = *data_.mutable_jpeg()->mutable_contents();
  const auto error = [&](Split split, int64_t train, int64_t test,
                         int32_t classes) {
    contents.set_train_samples(train);
    contents.set_test_samples(test);
    contents.set_classes(classes);
    const absl::Status status = OpenDataSource(data_, split, 5).status();
    EXPECT_TRUE(status.ok() || absl::IsInvalidArgument(status)) << status;
    return std::string(status.message());
  };
  EXPECT_EQ(error(Split::kTrain, 8, 0, 2), "") << "it reads no test images";
  EXPECT_EQ(error(Split::kTest, 1, 8, 3), "");
  EXPECT_EQ(error(Split::kTrain, 7, 8, 2),
            "data.jpeg.contents.train_samples: is 7, expected 8, the images "
            "that are there");
  EXPECT_THAT(error(Split::kTest, 8, 9, 2),
              HasSubstr("contents.test_samples: is 9, expected 8"));
  EXPECT_EQ(error(Split::kTest, 8, 8, 1),
            "data.jpeg.contents.classes: is 1, but " + root_ +
                "/train/odd/1.jpg has label 1");
}

TEST_F(JpegSourceTest, AnImageThatCannotBeReadIsNotTakenForADamagedOne) {
  data_.mutable_jpeg()->set_on_damage(proto::Jpeg::SKIP);
  const auto source = Open(Split::kTest);
  std::filesystem::remove(root_ + "/train/even/0.jpg");
  Batch batch;
  EXPECT_EQ(source->Gather({0}, &batch).code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(source->damaged(), 0);
}

}  // namespace
}  // namespace sluice
