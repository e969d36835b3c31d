#include "common/formats/safetensors.h"

#include <cstring>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "common/sha256.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;

ParameterLayout TwoTensors() {
  TensorSpec weight;
  weight.name = "dense0.weight";
  weight.shape = {2, 3};
  weight.size = 6;
  TensorSpec bias;
  bias.name = "dense0.bias";
  bias.shape = {2};
  bias.size = 2;
  return ParameterLayout({weight, bias}, /*shards=*/1);
}

std::vector<float> Weights(int64_t n) {
  std::vector<float> weights(n);
  std::iota(weights.begin(), weights.end(), 0.5f);
  return weights;
}

class SafetensorsTest : public ::testing::Test {
 protected:
  std::string ReadBytes() const {
    std::ifstream in(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(in),
            std::istreambuf_iterator<char>()};
  }
  void WriteBytes(const std::string& bytes) const {
    std::ofstream(path_, std::ios::binary) << bytes;
  }
  // Writes a file with this header and this many bytes of data.
  void WriteFile(const std::string& header, int data_bytes) const {
    const uint64_t n = header.size();
    std::string bytes(reinterpret_cast<const char*>(&n), sizeof(n));
    WriteBytes(bytes + header + std::string(data_bytes, '\0'));
  }

  const ParameterLayout layout_ = TwoTensors();
  // The name of a parameterised test has a slash.
  const std::string path_ = absl::StrCat(
      ::testing::TempDir(), "/",
      absl::StrReplaceAll(
          ::testing::UnitTest::GetInstance()->current_test_info()->name(),
          {{"/", "_"}}),
      ".safetensors");
};

TEST_F(SafetensorsTest, WhatWasWrittenIsReadBack) {
  const std::vector<float> weights = Weights(8);
  ASSERT_TRUE(WriteSafetensors(path_, layout_, weights).ok());
  const auto read = ReadSafetensors(path_, layout_);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(*read, weights);
}

TEST_F(SafetensorsTest, ReadingAndWritingAgainGivesEqualBytes) {
  ASSERT_TRUE(WriteSafetensors(path_, layout_, Weights(8)).ok());
  const std::string first = ReadBytes();
  const auto read = ReadSafetensors(path_, layout_);
  ASSERT_TRUE(read.ok());
  ASSERT_TRUE(WriteSafetensors(path_, layout_, *read).ok());
  EXPECT_EQ(ReadBytes(), first);
}

TEST_F(SafetensorsTest, TheBytesAreThoseOfThePublishedFormat) {
  ASSERT_TRUE(WriteSafetensors(path_, layout_, Weights(8)).ok());
  const std::string bytes = ReadBytes();
  ASSERT_GT(bytes.size(), 8u);
  uint64_t n = 0;
  for (int i = 7; i >= 0; --i) n = n << 8 | static_cast<uint8_t>(bytes[i]);
  EXPECT_EQ(n % 8, 0u);
  ASSERT_EQ(bytes.size(), 8 + n + 8 * sizeof(float));
  const auto header = nlohmann::json::parse(bytes.substr(8, n));
  EXPECT_EQ(header, nlohmann::json::parse(R"({
    "dense0.weight":
      {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]},
    "dense0.bias":
      {"dtype": "F32", "shape": [2], "data_offsets": [24, 32]}})"));
  // 0.5f is 0x3f000000.
  EXPECT_EQ(bytes.substr(8 + n, 4), std::string("\0\0\0\x3f", 4));
}

TEST_F(SafetensorsTest, TheOrderOfTheTensorsInTheFileDoesNotMatter) {
  WriteFile(R"({"dense0.bias":{"dtype":"F32","shape":[2],
                "data_offsets":[0,8]},
               "dense0.weight":{"dtype":"F32","shape":[2,3],
                "data_offsets":[8,32]},
               "__metadata__":{"format":"pt"}})",
            32);
  std::string bytes = ReadBytes();
  const float one = 1;
  std::memcpy(bytes.data() + bytes.size() - 24, &one, sizeof(one));
  WriteBytes(bytes);
  const auto read = ReadSafetensors(path_, layout_);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ((*read)[0], 1);
  EXPECT_EQ((*read)[6], 0);
}

TEST_F(SafetensorsTest, AnyRangeIsReadByItself) {
  // The file has the tensors in another order than the layout.
  WriteFile(R"({"dense0.bias":{"dtype":"F32","shape":[2],
                "data_offsets":[0,8]},
               "dense0.weight":{"dtype":"F32","shape":[2,3],
                "data_offsets":[8,32]}})",
            0);
  std::string bytes = ReadBytes();
  const std::vector<float> floats = {6.5, 7.5, 0.5, 1.5, 2.5, 3.5, 4.5, 5.5};
  bytes.append(reinterpret_cast<const char*>(floats.data()), 32);
  WriteBytes(bytes);
  const auto file = SafetensorsFile::Open(path_, layout_);
  ASSERT_TRUE(file.ok()) << file.status();
  const std::vector<float> whole = Weights(8);
  for (int64_t begin = 0; begin <= 8; ++begin) {
    for (int64_t end = begin; end <= 8; ++end) {
      const auto read = file->Read({begin, end});
      ASSERT_TRUE(read.ok()) << read.status();
      EXPECT_EQ(*read,
                std::vector<float>(whole.begin() + begin, whole.begin() + end));
    }
  }
}

TEST_F(SafetensorsTest, AFileThatWasCutWhileOpenIsDataLoss) {
  ASSERT_TRUE(WriteSafetensors(path_, layout_, Weights(8)).ok());
  const auto file = SafetensorsFile::Open(path_, layout_);
  ASSERT_TRUE(file.ok());
  WriteBytes("short");
  EXPECT_EQ(file->Read({0, 8}).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(file->Sha256().status().code(), absl::StatusCode::kUnavailable);
}

TEST_F(SafetensorsTest, TheDigestIsOfTheFilesBytes) {
  ASSERT_TRUE(WriteSafetensors(path_, layout_, Weights(8)).ok());
  const auto file = SafetensorsFile::Open(path_, layout_);
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(file->Sha256().value(), Sha256Hex(ReadBytes()));
}

TEST_F(SafetensorsTest, AFolderIsNoFile) {
  const auto file = SafetensorsFile::Open(::testing::TempDir(), layout_);
  EXPECT_EQ(file.status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(SafetensorsTest, AMissingFileIsNotFound) {
  EXPECT_EQ(ReadSafetensors(path_ + ".none", layout_).status().code(),
            absl::StatusCode::kNotFound);
}

TEST_F(SafetensorsTest, AFolderThatDoesNotExistIsNamed) {
  const absl::Status status =
      WriteSafetensors("/nowhere/at/all.safetensors", layout_, Weights(8));
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("/nowhere/at/all"));
}

// Malformed files: a description, the header, the number of data bytes, and the
// expected message.
struct Malformed {
  const char* what;
  const char* header;
  int data_bytes;
  absl::StatusCode code;
  const char* message;
};

class MalformedTest : public SafetensorsTest,
                      public ::testing::WithParamInterface<Malformed> {};

TEST_P(MalformedTest, IsRefusedWithTheReason) {
  WriteFile(GetParam().header, GetParam().data_bytes);
  const auto read = ReadSafetensors(path_, layout_);
  EXPECT_EQ(read.status().code(), GetParam().code) << read.status();
  EXPECT_THAT(std::string(read.status().message()),
              HasSubstr(GetParam().message));
}

constexpr Malformed kMalformed[] = {
    {"NotJson", "{", 32, absl::StatusCode::kDataLoss, "not JSON"},
    {"NoObject", "[]", 32, absl::StatusCode::kDataLoss, "not JSON"},
    {"NoOffsets", R"({"dense0.bias":{"dtype":"F32","shape":[2]}})", 8,
     absl::StatusCode::kDataLoss, "data_offsets"},
    {"Fraction", R"({"dense0.bias":{"dtype":"F32","shape":[2],
                     "data_offsets":[0,8.5]}})",
     8, absl::StatusCode::kDataLoss,
     "tensor dense0.bias: data_offsets is no list of whole numbers"},
    {"Half", R"({"dense0.bias":{"dtype":"F16","shape":[2],
                 "data_offsets":[0,4]}})",
     4, absl::StatusCode::kInvalidArgument, "F16"},
    {"Overlap", R"({"dense0.weight":{"dtype":"F32","shape":[2,3],
                    "data_offsets":[0,24]},
                   "dense0.bias":{"dtype":"F32","shape":[2],
                    "data_offsets":[20,28]}})",
     28, absl::StatusCode::kDataLoss, "expected one from byte 24"},
    {"Gap", R"({"dense0.weight":{"dtype":"F32","shape":[2,3],
                "data_offsets":[0,24]},
               "dense0.bias":{"dtype":"F32","shape":[2],
                "data_offsets":[28,36]}})",
     36, absl::StatusCode::kDataLoss, "expected one from byte 24"},
    {"Short", R"({"dense0.weight":{"dtype":"F32","shape":[2,3],
                  "data_offsets":[0,24]},
                 "dense0.bias":{"dtype":"F32","shape":[2],
                  "data_offsets":[24,32]}})",
     31, absl::StatusCode::kDataLoss, "has 31 bytes of data"},
    {"Shape", R"({"dense0.weight":{"dtype":"F32","shape":[3,2],
                  "data_offsets":[0,24]},
                 "dense0.bias":{"dtype":"F32","shape":[2],
                  "data_offsets":[24,32]}})",
     32, absl::StatusCode::kInvalidArgument, "expected (2, 3)"},
    {"Missing", R"({"dense0.weight":{"dtype":"F32","shape":[2,3],
                    "data_offsets":[0,24]}})",
     24, absl::StatusCode::kInvalidArgument,
     "dense0.bias is missing, expected (2)"},
    {"OneMore", R"({"dense0.weight":{"dtype":"F32","shape":[2,3],
                    "data_offsets":[0,24]},
                   "dense0.bias":{"dtype":"F32","shape":[2],
                    "data_offsets":[24,32]},
                   "dense1.bias":{"dtype":"F32","shape":[1],
                    "data_offsets":[32,36]}})",
     36, absl::StatusCode::kInvalidArgument,
     "has a tensor dense1.bias, expected only the 2"},
    {"OtherName", R"({"dense0.weight":{"dtype":"F32","shape":[2,3],
                      "data_offsets":[0,24]},
                     "dense1.bias":{"dtype":"F32","shape":[2],
                      "data_offsets":[24,32]}})",
     32, absl::StatusCode::kInvalidArgument, "dense0.bias is missing"},
};

INSTANTIATE_TEST_SUITE_P(Files, MalformedTest, ::testing::ValuesIn(kMalformed),
                         [](const auto& info) {
                           return std::string(info.param.what);
                         });

// Whoever prints it takes as much stack as it is deep.
TEST_F(SafetensorsTest, ADtypeOfListsInListsIsRefused) {
  constexpr int kDeep = 300000;
  WriteFile(absl::StrCat(R"({"dense0.bias":{"dtype":)", std::string(kDeep, '['),
                         std::string(kDeep, ']'),
                         R"(,"shape":[2],"data_offsets":[0,8]}})"),
            8);
  const auto read = ReadSafetensors(path_, layout_);
  EXPECT_EQ(read.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(read.status().message()),
              HasSubstr("tensor dense0.bias: "));
}

TEST_F(SafetensorsTest, AHeaderLongerThanTheFileIsRefused) {
  const uint64_t n = 1u << 30;
  WriteBytes(std::string(reinterpret_cast<const char*>(&n), sizeof(n)) + "{}");
  const auto read = ReadSafetensors(path_, layout_);
  EXPECT_EQ(read.status().code(), absl::StatusCode::kDataLoss);
  WriteBytes("abc");
  EXPECT_EQ(ReadSafetensors(path_, layout_).status().code(),
            absl::StatusCode::kDataLoss);
}

}  // namespace
}  // namespace sluice
