#include "common/formats/text_file.h"

#include <fstream>

#include "common/job/data_shape.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/job.pb.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string Write(const std::string& name, const std::string& bytes) {
  const std::string path = testing::TempDir() + "/" + name;
  std::ofstream(path, std::ios::binary) << bytes;
  return path;
}

TextPaths Paths(const std::vector<std::string>& paths) {
  return TextPaths(paths.begin(), paths.end());
}

TEST(TextFileTest, FilesAreReadOneBehindTheOther) {
  const auto bytes =
      ReadTextFiles(Paths({Write("one", "ab"), Write("two", "c\xff")}));
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  EXPECT_THAT(*bytes, ElementsAre('a', 'b', 'c', 0xff));
}

TEST(TextFileTest, ASampleNeedsTheByteBehindIt) {
  const std::string path = Write("text", "12345678");
  const auto count = [&](int64_t length) {
    return *CountTextSamples(Paths({path}), length);
  };
  EXPECT_EQ(count(1), 7);
  EXPECT_EQ(count(2), 3);
  EXPECT_EQ(count(3), 2);
  EXPECT_EQ(count(4), 1);
  EXPECT_EQ(count(7), 1);
  EXPECT_EQ(*CountTextSamples(Paths({path, path}), 5), 3);
}

TEST(TextFileTest, TextThatIsTooShortIsRefusedWithBothNumbers) {
  const auto refused =
      CountTextSamples(Paths({Write("a", "123"), Write("b", "45678")}), 8);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.status().message()),
              HasSubstr("/b: has 8 bytes, expected at least 9, a sample of 8 "
                        "and the byte behind it"));
}

TEST(TextFileTest, AMissingOrEmptyFileIsNamed) {
  const std::string text = Write("text", "12345678");
  const auto missing = CountTextSamples(Paths({text, "/no/text"}), 2);
  EXPECT_EQ(missing.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(missing.status().message()), HasSubstr("/no/text"));
  const std::string empty = Write("empty", "");
  for (const absl::Status& refused :
       {CountTextSamples(Paths({text, empty}), 2).status(),
        ReadTextFiles(Paths({empty})).status()}) {
    EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(refused.message(), empty + ": is empty, expected text");
  }
  EXPECT_EQ(CountTextSamples(Paths({testing::TempDir()}), 2).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(TextFileTest, APathThatNoFileCanHaveIsAMistakeAndNotTriedAgain) {
  const std::string text = Write("text", "12345678");
  for (const std::string& path : {text + "/", std::string(5000, 'a')}) {
    const absl::Status refused = CountTextSamples(Paths({path}), 2).status();
    EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(refused.message()),
                HasSubstr(path + ": cannot be opened: "));
  }
}

TEST(DataShapeTest, TextHasALabelForEachByte) {
  proto::Data data;
  data.mutable_text()->add_train(Write("train", "123456789"));
  data.mutable_text()->set_length(4);
  const auto train_only = ReadDataShape(data);
  ASSERT_TRUE(train_only.ok()) << train_only.status();
  EXPECT_EQ(train_only->train_samples, 2);
  EXPECT_EQ(train_only->test_samples, 0);
  EXPECT_THAT(train_only->input_shape, ElementsAre(4));
  EXPECT_EQ(train_only->labels, 4);
  EXPECT_EQ(train_only->vocabulary, 256);
  EXPECT_TRUE(train_only->classification);
  data.mutable_text()->add_test(Write("test", "12345"));
  EXPECT_EQ(ReadDataShape(data)->test_samples, 1);
}

}  // namespace
}  // namespace sluice
