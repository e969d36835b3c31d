#include "worker/data/data_source.h"

#include <cmath>
#include <fstream>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/data/readers.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Ne;

std::string Write(const std::string& name, const std::string& bytes) {
  const std::string path = testing::TempDir() + "/" + name;
  std::ofstream(path, std::ios::binary) << bytes;
  return path;
}

// Three images of 1 x 2 pixels, with `labels` labels.
proto::Data Images(int labels = 3) {
  using std::string_literals::operator""s;
  proto::Data data;
  proto::Idx* idx = data.mutable_idx();
  idx->set_mean(0.5);
  idx->set_deviation(0.25);
  idx->set_train_images(Write(
      "images", "\0\0\x08\3\0\0\0\3\0\0\0\1\0\0\0\2\x00\xff\x33\x66\x99\xcc"s));
  idx->set_train_labels(Write("labels", "\0\0\x08\1\0\0\0"s +
                                            static_cast<char>(labels) +
                                            "\4\0\2\7\7\7"s.substr(0, labels)));
  return data;
}

TEST(IdxSourceTest, PixelsAreScaledAndGatheredInTheOrderAsked) {
  const auto source = OpenDataSource(Images(), Split::kTrain, 1);
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_EQ((*source)->size(), 3);
  Batch batch;
  EXPECT_TRUE((*source)->Gather({2, 0}, &batch).ok());
  EXPECT_EQ(batch.samples, 2);
  EXPECT_THAT(batch.labels, ElementsAre(2, 4));
  EXPECT_THAT(batch.targets, IsEmpty());
  // 0x99 / 255 = 0.6, 0xcc / 255 = 0.8.
  EXPECT_THAT(batch.inputs,
              ElementsAre(testing::FloatEq(0.4f), testing::FloatEq(1.2f),
                          testing::FloatEq(-2), testing::FloatEq(2)));
}

TEST(IdxSourceTest, ABatchIsReusedAtAnotherSize) {
  const auto source = OpenDataSource(Images(), Split::kTrain, 1);
  ASSERT_TRUE(source.ok());
  Batch batch;
  EXPECT_TRUE((*source)->Gather({0, 1, 2}, &batch).ok());
  EXPECT_TRUE((*source)->Gather({1}, &batch).ok());
  EXPECT_EQ(batch.inputs.size(), 2);
  EXPECT_THAT(batch.labels, ElementsAre(0));
  EXPECT_TRUE((*source)->Gather({}, &batch).ok());
  EXPECT_EQ(batch.samples, 0);
  EXPECT_THAT(batch.inputs, IsEmpty());
}

TEST(IdxSourceTest, TheDigestTellsContentsApartAndNotPaths) {
  const auto digest = [](const proto::Data& data) {
    const auto source = OpenDataSource(data, Split::kTrain, 1);
    EXPECT_TRUE(source.ok()) << source.status();
    return (*source)->Digest();
  };
  using std::string_literals::operator""s;
  const std::string same = digest(Images());
  EXPECT_EQ(same.size(), 64);
  proto::Data other = Images();
  other.mutable_idx()->set_train_labels(
      Write("copied_labels", "\0\0\x08\1\0\0\0\3\4\0\2"s));
  EXPECT_EQ(digest(other), same);
  other.mutable_idx()->set_train_labels(
      Write("other_labels", "\0\0\x08\1\0\0\0\3\4\0\3"s));
  EXPECT_NE(digest(other), same);
  other = Images();
  other.mutable_idx()->set_train_images(
      Write("other_images",
            "\0\0\x08\3\0\0\0\3\0\0\0\1\0\0\0\2\x00\xff\x33\x66\x99\xcd"s));
  EXPECT_NE(digest(other), same);
  // The same pixels as images of another shape.
  other.mutable_idx()->set_train_images(
      Write("turned_images",
            "\0\0\x08\3\0\0\0\3\0\0\0\2\0\0\0\1\x00\xff\x33\x66\x99\xcc"s));
  EXPECT_NE(digest(other), same);
}

TEST(IdxSourceTest, ImagesAndLabelsMustBeAsMany) {
  for (int labels : {2, 4}) {
    const auto source = OpenDataSource(Images(labels), Split::kTrain, 1);
    EXPECT_EQ(source.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(source.status().message()),
                HasSubstr("has " + std::to_string(labels) +
                          " labels, expected 3, one for each image"));
  }
}

TEST(IdxSourceTest, AMissingFileIsNamed) {
  proto::Data data = Images();
  data.mutable_idx()->set_train_labels("/no/labels");
  const auto source = OpenDataSource(data, Split::kTrain, 1);
  EXPECT_EQ(source.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(source.status().message()), HasSubstr("/no/labels"));
}

TEST(CifarSourceTest, EachChannelIsNormalisedByItsOwn) {
  // Two files of one image each: all red bytes are 0, green 255, blue 51.
  const auto record = [](char label) {
    return std::string(1, label) + std::string(1024, '\0') +
           std::string(1024, '\xff') + std::string(1024, '\x33');
  };
  proto::Data data;
  proto::Cifar* cifar = data.mutable_cifar();
  cifar->set_classes(proto::Cifar::CIFAR10);
  cifar->add_train(Write("batch_1", record(4)));
  cifar->add_train(Write("batch_2", record(9)));
  for (const double mean : {0.5, 0.75, 0.0}) cifar->add_mean(mean);
  for (const double deviation : {1.0, 0.5, 0.1})
    cifar->add_deviation(deviation);
  const auto source = OpenDataSource(data, Split::kTrain, 1);
  ASSERT_TRUE(source.ok()) << source.status();
  Batch batch;
  EXPECT_TRUE((*source)->Gather({1, 0}, &batch).ok());
  EXPECT_THAT(batch.labels, ElementsAre(9, 4));
  ASSERT_EQ(batch.inputs.size(), 2 * 3072);
  for (const size_t image : {0, 3072}) {
    EXPECT_FLOAT_EQ(batch.inputs[image], -0.5f);
    EXPECT_FLOAT_EQ(batch.inputs[image + 1023], -0.5f);
    EXPECT_FLOAT_EQ(batch.inputs[image + 1024], 0.5f);
    EXPECT_FLOAT_EQ(batch.inputs[image + 3071], 2.0f);
  }
  EXPECT_FLOAT_EQ(NormalisedPixel(data, /*channel=*/1, /*pixel=*/0), -1.5f);
}

TEST(OpenDataSourceTest, NoReaderIsRefused) {
  EXPECT_FALSE(OpenDataSource(proto::Data(), Split::kTrain, 1).ok());
}

proto::Data Linear(double noise) {
  proto::Data data;
  proto::LinearRegression* linear = data.mutable_linear_regression();
  linear->set_features(5);
  linear->set_train_samples(400);
  linear->set_test_samples(100);
  linear->set_noise(noise);
  return data;
}

// Mean squared residual at the true weights.
double Residual(const proto::Data& data, Split split, uint64_t seed) {
  const auto source = OpenDataSource(data, split, seed);
  EXPECT_TRUE(source.ok());
  const std::vector<float> w =
      LinearRegressionOptimum(data.linear_regression(), seed);
  Batch batch;
  double sum = 0;
  for (int64_t i = 0; i < (*source)->size(); ++i) {
    EXPECT_TRUE((*source)->Gather({i}, &batch).ok());
    double y = 0;
    for (size_t j = 0; j < w.size(); ++j) y += double{w[j]} * batch.inputs[j];
    sum += (batch.targets[0] - y) * (batch.targets[0] - y);
  }
  return sum / (*source)->size();
}

TEST(LinearRegressionTest, WithoutNoiseTheOptimumFitsEverySample) {
  for (const Split split : {Split::kTrain, Split::kTest}) {
    // Targets are rounded to float, which is about 1e-7 for values of about 3.
    EXPECT_LT(Residual(Linear(0), split, 7), 1e-12);
  }
}

TEST(LinearRegressionTest, NoiseHasTheDeviationAskedFor) {
  // A variance estimated from 400 samples is right within 4 sqrt(2 / 400) =
  // 28%.
  EXPECT_NEAR(Residual(Linear(0.5), Split::kTrain, 7), 0.25, 0.07);
}

TEST(LinearRegressionTest, SamplesDependOnSeedAndSplitOnly) {
  Batch a;
  Batch b;
  const auto gather = [](Split split, uint64_t seed, Batch* batch) {
    const auto source = OpenDataSource(Linear(0.1), split, seed);
    EXPECT_TRUE((*source)->Gather({3}, batch).ok());
    EXPECT_EQ((*source)->size(), split == Split::kTrain ? 400 : 100);
    EXPECT_THAT(batch->labels, IsEmpty());
  };
  gather(Split::kTrain, 1, &a);
  gather(Split::kTrain, 1, &b);
  EXPECT_EQ(a.inputs, b.inputs);
  EXPECT_EQ(a.targets, b.targets);
  gather(Split::kTest, 1, &b);
  EXPECT_THAT(b.inputs, Ne(a.inputs));
  gather(Split::kTrain, 2, &b);
  EXPECT_THAT(b.inputs, Ne(a.inputs));
}

proto::SyntheticImages Synthetic(double noise) {
  proto::SyntheticImages images;
  images.set_channels(3);
  images.set_height(5);
  images.set_width(7);
  images.set_classes(4);
  images.set_train_samples(100);
  images.set_test_samples(50);
  images.set_noise(noise);
  return images;
}

Batch GatherFrom(const proto::SyntheticImages& images, Split split,
                 uint64_t seed, const std::vector<int64_t>& indices) {
  Batch batch;
  EXPECT_TRUE(
      MakeSyntheticImages(images, split, seed)->Gather(indices, &batch).ok());
  EXPECT_EQ(batch.inputs.size(), indices.size() * 3 * 5 * 7);
  EXPECT_THAT(batch.targets, IsEmpty());
  return batch;
}

TEST(SyntheticImagesTest, WithoutNoiseASampleIsItsClassesPattern) {
  const Batch train = GatherFrom(Synthetic(0), Split::kTrain, 7, {2, 6, 7});
  EXPECT_THAT(train.labels, ElementsAre(2, 2, 3));
  const auto image = [&](int i) {
    return std::vector<float>(train.inputs.begin() + i * 105,
                              train.inputs.begin() + (i + 1) * 105);
  };
  EXPECT_EQ(image(0), image(1));
  EXPECT_NE(image(0), image(2));
  EXPECT_THAT(image(0), testing::Each(testing::AllOf(testing::Ge(-1.0f),
                                                     testing::Lt(1.0f))));
  // Both splits have the same classes; another seed gives others.
  EXPECT_EQ(GatherFrom(Synthetic(0), Split::kTest, 7, {2}).inputs, image(0));
  EXPECT_NE(GatherFrom(Synthetic(0), Split::kTrain, 8, {2}).inputs, image(0));
}

TEST(SyntheticImagesTest, NoiseIsASamplesOwnAndOfTheDeviationAsked) {
  std::vector<int64_t> all(100);
  for (int64_t i = 0; i < 100; ++i) all[i] = i;
  const Batch plain = GatherFrom(Synthetic(0), Split::kTrain, 7, all);
  const Batch noisy = GatherFrom(Synthetic(0.5), Split::kTrain, 7, all);
  double sum = 0, squares = 0;
  for (size_t i = 0; i < plain.inputs.size(); ++i) {
    const double noise = noisy.inputs[i] - plain.inputs[i];
    sum += noise;
    squares += noise * noise;
  }
  const double count = static_cast<double>(plain.inputs.size());
  // Five standard errors of 10,500 numbers.
  EXPECT_NEAR(sum / count, 0, 5 * 0.5 / std::sqrt(count));
  EXPECT_NEAR(squares / count, 0.25, 5 * 0.25 / std::sqrt(count));
  // A sample does not depend on the order or company in which it is gathered,
  // and no two are alike.
  const Batch alone = GatherFrom(Synthetic(0.5), Split::kTrain, 7, {42});
  EXPECT_TRUE(std::equal(alone.inputs.begin(), alone.inputs.end(),
                         noisy.inputs.begin() + 42 * 105));
  EXPECT_NE(GatherFrom(Synthetic(0.5), Split::kTrain, 7, {46}).inputs,
            alone.inputs);
  EXPECT_NE(GatherFrom(Synthetic(0.5), Split::kTest, 7, {42}).inputs,
            alone.inputs);
}

// Text of these bytes, in samples of `length`.
proto::Data TextOf(const std::string& bytes, int length) {
  proto::Data data;
  data.mutable_text()->add_train(Write("text", bytes));
  data.mutable_text()->set_length(length);
  return data;
}

TEST(TextSourceTest, ALabelIsTheByteThatFollows) {
  const auto source = OpenDataSource(TextOf("abc\xff"
                                            "efgh",
                                            3),
                                     Split::kTrain, 1);
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_EQ((*source)->size(), 2);
  Batch batch;
  EXPECT_TRUE((*source)->Gather({1, 0}, &batch).ok());
  EXPECT_EQ(batch.samples, 2);
  EXPECT_THAT(batch.inputs, ElementsAre(255, 'e', 'f', 'a', 'b', 'c'));
  EXPECT_THAT(batch.labels, ElementsAre('e', 'f', 'g', 'b', 'c', 255));
  EXPECT_THAT(batch.targets, IsEmpty());
}

TEST(TextSourceTest, TheDigestNamesBytesAndLength) {
  const auto digest = [](const std::string& bytes, int length) {
    return (*OpenDataSource(TextOf(bytes, length), Split::kTrain, 1))->Digest();
  };
  EXPECT_EQ(digest("abcdefg", 3), digest("abcdefg", 3));
  EXPECT_THAT(digest("abcdefh", 3), Ne(digest("abcdefg", 3)));
  EXPECT_THAT(digest("abcdefg", 2), Ne(digest("abcdefg", 3)));
}

TEST(TextSourceTest, TextShorterThanASampleIsRefused) {
  const auto refused = OpenDataSource(TextOf("abc", 3), Split::kTrain, 1);
  EXPECT_THAT(std::string(refused.status().message()),
              HasSubstr("has 3 bytes, expected at least 4"));
}

}  // namespace
}  // namespace sluice
