#include <google/protobuf/text_format.h>

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/job/resolved_job.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// The violations that Validate finds in a job with these data.
std::vector<std::string> Violations(const std::string& data,
                                    bool evaluated = true) {
  proto::Job job;
  EXPECT_TRUE(
      google::protobuf::TextFormat::ParseFromString(data, job.mutable_data()))
      << data;
  job.mutable_evaluation()->set_enabled(evaluated);
  ResolveDefaults(&job);
  std::vector<std::string> found;
  for (const std::string& violation : Validate(job)) {
    if (absl::StartsWith(violation, "data")) found.push_back(violation);
  }
  return found;
}

TEST(DataValidationTest, EveryReaderIsValidWithLittle) {
  for (const char* data :
       {"idx { train_images: 'a' train_labels: 'b' test_images: 'c' "
        "test_labels: 'd' } augmentation {}",
        "cifar { train: 'a' test: 'b' } augmentation {}",
        "jpeg { train: 'a' test: 'b' } "
        "augmentation { random_resized_crop {} }",
        "text { train: 'a' test: 'b' }", "synthetic_images { height: 8 }",
        "linear_regression { features: 3 }"}) {
    EXPECT_THAT(Violations(data), IsEmpty()) << data;
  }
  EXPECT_THAT(Violations("idx { train_images: 'a' train_labels: 'b' }", false),
              IsEmpty());
  EXPECT_THAT(Violations("cifar { train: 'a' }", false), IsEmpty());
}

TEST(DataValidationTest, OneOfTheReadersMustBeNamed) {
  EXPECT_THAT(
      Violations(""),
      ElementsAre("data: must name a reader: idx, cifar, jpeg, "
                  "synthetic_images, text, linear_regression or external"));
}

TEST(DataValidationTest, IdxTestFilesAreBothOrNone) {
  for (const bool evaluated : {true, false}) {
    EXPECT_THAT(Violations("idx { train_images: 'a' train_labels: 'b' "
                           "test_images: 'c' }",
                           evaluated),
                ElementsAre("data.idx.test_labels: must name a file, is not "
                            "set"));
  }
}

TEST(DataValidationTest, CifarNeedsFilesAndAValueForEachChannel) {
  EXPECT_THAT(
      Violations("cifar { train: 'a' train: '' mean: [0.5, 0.5] "
                 "deviation: [1, 0, 1] }"),
      ElementsAre("data.cifar.train[1]: must name a file, is empty",
                  "data.cifar.test: must name a file, is not set",
                  "data.cifar.mean: must have 3 values (red, green, blue), "
                  "has 2",
                  HasSubstr("data.cifar.deviation[1]: must be above 0")));
}

TEST(DataValidationTest, TextNeedsFilesAndALength) {
  EXPECT_THAT(Violations("text { train: '' length: 65537 }"),
              ElementsAre("data.text.train[0]: must name a file, is empty",
                          "data.text.test: must name a file, is not set",
                          "data.text.length: must be 1 to 65536, is 65537"));
  EXPECT_THAT(Violations("text { train: 'a' }", false), IsEmpty());
}

TEST(DataValidationTest, WhatIsMadeMustFitMemory) {
  EXPECT_THAT(Violations("synthetic_images { height: 4096 classes: 100 }"),
              ElementsAre(HasSubstr("must be at most 4294967296, is "
                                    "5033164800")));
  // Sizes that overflow are reported as out of bounds.
  EXPECT_THAT(
      Violations("synthetic_images { channels: 2147483647 "
                 "height: 2147483647 classes: 2147483647 }"),
      Contains(HasSubstr("data.synthetic_images.height: must be 1 to 4096")));
  EXPECT_THAT(Violations("linear_regression { features: 1000000 "
                         "train_samples: 1000000 }"),
              ElementsAre(HasSubstr("features times samples must be at most "
                                    "4294967296")));
}

TEST(DataValidationTest, SizesAreSaidWithTheirBounds) {
  EXPECT_THAT(
      Violations("synthetic_images { classes: 1 }"),
      ElementsAre("data.synthetic_images.height: must be 1 to 4096, is 0",
                  "data.synthetic_images.classes: must be 2 to 65536, is 1"));
  EXPECT_THAT(
      Violations("linear_regression { features: 3 test_samples: 0 }"),
      ElementsAre("data.linear_regression.test_samples: must be 1 or more with "
                  "evaluation.enabled, is 0"));
}

TEST(DataValidationTest, AugmentationIsForImagesThatAreRead) {
  for (const std::string reader : {"synthetic_images { height: 8 }",
                                   "linear_regression { features: 3 }"}) {
    EXPECT_THAT(Violations(reader + " augmentation {}"),
                ElementsAre("data.augmentation: needs images that are read: "
                            "data.idx, data.cifar or data.jpeg"));
  }
}

TEST(DataValidationTest, JpegImagesAreCroppedAtRandomAndOthersPadded) {
  EXPECT_THAT(Violations("cifar { train: 'a' test: 'b' } "
                         "augmentation { random_resized_crop {} }"),
              ElementsAre("data.augmentation.random_resized_crop: needs "
                          "data.jpeg"));
  EXPECT_THAT(Violations("jpeg { train: 'a' test: 'b' } augmentation { "
                         "crop_padding: 4 random_resized_crop { min_area: 2 } "
                         "}"),
              ElementsAre("data.augmentation.crop_padding: must be 0 with "
                          "data.jpeg, which has random_resized_crop, is 4",
                          "data.augmentation.random_resized_crop.min_area: "
                          "must be above 0 and at most 1, is 2"));
}

TEST(DataValidationTest, JpegSizesAreSaidWithTheirBounds) {
  EXPECT_THAT(Violations("jpeg { size: 5000 threads: -1 mean: 0.5 }"),
              ElementsAre("data.jpeg.train: must name a file, is not set",
                          "data.jpeg.test: must name a file, is not set",
                          "data.jpeg.mean: must have 3 values (red, green, "
                          "blue), has 1",
                          "data.jpeg.size: must be 1 to 4096, is 5000",
                          "data.jpeg.threads: must be 0 to 1024, is -1"));
  EXPECT_THAT(Violations("jpeg { train: 'a' test: 'b' size: 224 resize: 200 }"),
              ElementsAre("data.jpeg.resize: must be 224 to 8192 (at least "
                          "data.jpeg.size), is 200"));
}

TEST(DataValidationTest, TheContentsOfFoldersAreWhole) {
  const std::string jpeg = "jpeg { train: 'a' test: 'b' contents { ";
  EXPECT_THAT(
      Violations(jpeg + "} }"),
      ElementsAre("data.jpeg.contents.train_samples: must be 1 to "
                  "1099511627776, is 0",
                  "data.jpeg.contents.test_samples: must be 1 to 1099511627776 "
                  "with evaluation.enabled, is 0",
                  "data.jpeg.contents.classes: must be 1 or more, is 0"));
  EXPECT_THAT(Violations(jpeg + "train_samples: 1 classes: 1 } }", false),
              IsEmpty());
}

// So many that the lead's count of mini-batches would not fit into 64 bits.
TEST(DataValidationTest, SamplesThatNobodyCouldCountAreRefused) {
  for (const char* samples : {"1099511627777", "9223372036854775807"}) {
    EXPECT_THAT(
        Violations(absl::StrCat(
                       "jpeg { train: 'a' contents { train_samples: ", samples,
                       " test_samples: ", samples, " classes: 1 } }"),
                   false),
        ElementsAre(
            absl::StrCat("data.jpeg.contents.train_samples: must be 1 to "
                         "1099511627776, is ",
                         samples),
            absl::StrCat("data.jpeg.contents.test_samples: must be 0 to "
                         "1099511627776, is ",
                         samples)));
  }
}

}  // namespace
}  // namespace sluice
