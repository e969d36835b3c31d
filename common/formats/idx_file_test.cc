#include "common/formats/idx_file.h"

#include <sys/stat.h>
#include <zlib.h>

#include <fstream>
#include <string>

#include "common/job/data_shape.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string Path(const std::string& name) {
  return testing::TempDir() + "/" + name;
}

std::string WritePlain(const std::string& name, const std::string& bytes) {
  std::ofstream(Path(name), std::ios::binary) << bytes;
  return Path(name);
}

std::string WriteGz(const std::string& name, const std::string& bytes) {
  gzFile file = gzopen(Path(name).c_str(), "wb");
  gzwrite(file, bytes.data(), bytes.size());
  gzclose(file);
  return Path(name);
}

std::string Contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string Header(const std::vector<uint32_t>& shape, char type = 8) {
  std::string bytes = {0, 0, type, static_cast<char>(shape.size())};
  for (const uint32_t length : shape) {
    for (int shift : {24, 16, 8, 0}) {
      bytes.push_back(static_cast<char>(length >> shift));
    }
  }
  return bytes;
}

std::string Values(int count) {
  std::string bytes;
  for (int i = 0; i < count; ++i) bytes.push_back(static_cast<char>(i * 7));
  return bytes;
}

TEST(IdxFileTest, PlainAndGzAreReadAlike) {
  const std::string bytes = Header({2, 3, 4}) + Values(24);
  for (const std::string& path :
       {WritePlain("plain", bytes), WriteGz("packed.gz", bytes)}) {
    const auto idx = ReadIdxFile(path, 3);
    ASSERT_TRUE(idx.ok()) << idx.status();
    EXPECT_THAT(idx->shape, ElementsAre(2, 3, 4));
    EXPECT_EQ(std::string(idx->values.begin(), idx->values.end()), Values(24));
    EXPECT_EQ(*ReadIdxShape(path, 3), idx->shape);
  }
}

TEST(IdxFileTest, AFileLargerThanOnePieceIsReadWhole) {
  for (int count : {(1 << 20) - 1, 1 << 20, (1 << 20) + 1, 2500000}) {
    const auto idx =
        ReadIdxFile(WriteGz("large.gz", Header({static_cast<uint32_t>(count)}) +
                                            Values(count)),
                    1);
    ASSERT_TRUE(idx.ok()) << idx.status();
    EXPECT_EQ(idx->values.size(), count);
    EXPECT_EQ(idx->values.back(), static_cast<uint8_t>((count - 1) * 7));
  }
}

TEST(IdxFileTest, AMissingFileIsNamed) {
  const absl::Status status = ReadIdxFile("/no/such/file", 1).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr("/no/such/file"));
}

TEST(IdxFileTest, AFolderAndAFifoAreRefusedAndNotWaitedFor) {
  EXPECT_FALSE(ReadIdxFile(testing::TempDir(), 1).ok());
  const std::string fifo = testing::TempDir() + "/fifo";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_EQ(ReadIdxFile(fifo, 1).status().message(), fifo + ": is no file");
}

// /proc/self/mem is such a file: it is there, and its first byte is not.
TEST(IdxFileTest, AFileThatTheSystemCannotReadIsNotTakenForADamagedOne) {
  const absl::Status unread = ReadIdxShape("/proc/self/mem", 1).status();
  EXPECT_EQ(unread.code(), absl::StatusCode::kUnavailable) << unread;
  EXPECT_THAT(std::string(unread.message()),
              HasSubstr("/proc/self/mem: cannot be read: "));
}

TEST(IdxFileTest, AnotherMagicIsRefusedWithBothValues) {
  const std::string path = WritePlain("floats", Header({1}, 13) + Values(4));
  const absl::Status status = ReadIdxShape(path, 1).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(std::string(status.message()),
            path +
                ": begins with 00000d01, expected 00000801 (IDX, unsigned "
                "bytes, 1 dimensions)");
}

TEST(IdxFileTest, LabelsWhereImagesAreExpectedAreRefused) {
  const std::string path = WritePlain("labels", Header({4}) + Values(4));
  EXPECT_THAT(std::string(ReadIdxShape(path, 3).status().message()),
              HasSubstr("begins with 00000801, expected 00000803"));
}

TEST(IdxFileTest, AHeaderThatIsCutShortIsRefused) {
  for (int length : {0, 3, 4, 11}) {
    const std::string path =
        WritePlain("cut", Header({2, 2}).substr(0, length));
    const absl::Status status = ReadIdxShape(path, 2).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("expected 12 bytes, got " + std::to_string(length)));
  }
}

TEST(IdxFileTest, ValuesThatEndEarlyAreRefusedWithBothCounts) {
  const std::string path = WriteGz("short.gz", Header({5, 2}) + Values(9));
  const absl::Status status = ReadIdxFile(path, 2).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("expected 10 values (5 x 2), got 9"));
}

TEST(IdxFileTest, ValuesThatGoOnAreRefused) {
  const std::string path = WritePlain("long", Header({5, 2}) + Values(11));
  EXPECT_THAT(std::string(ReadIdxFile(path, 2).status().message()),
              HasSubstr("goes on behind the 10 values"));
}

TEST(IdxFileTest, ATruncatedGzIsRefused) {
  const std::string whole =
      Contents(WriteGz("whole.gz", Header({3000}) + Values(3000)));
  for (const size_t keep : {whole.size() - 1, whole.size() / 2, size_t{20}}) {
    const std::string path = WritePlain("cut.gz", whole.substr(0, keep));
    const absl::Status status = ReadIdxFile(path, 1).status();
    EXPECT_FALSE(status.ok()) << keep << " bytes";
    EXPECT_THAT(std::string(status.message()), HasSubstr("cut.gz"));
  }
}

TEST(IdxFileTest, ADamagedGzIsRefused) {
  std::string bytes =
      Contents(WriteGz("good.gz", Header({3000}) + Values(3000)));
  bytes[bytes.size() - 6] ^= 1;  // The checksum.
  const absl::Status status =
      ReadIdxFile(WritePlain("damaged.gz", bytes), 1).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
}

TEST(IdxFileTest, AHeaderThatClaimsTerabytesCostsNoMemory) {
  const std::string path =
      WritePlain("huge", Header({1u << 20, 1u << 10, 1u << 10}) + Values(10));
  EXPECT_THAT(std::string(ReadIdxFile(path, 3).status().message()),
              HasSubstr("got 10"));
}

TEST(IdxFileTest, AnAbsurdOrEmptyShapeIsRefused) {
  for (const std::vector<uint32_t>& shape :
       {std::vector<uint32_t>{~0u, ~0u, ~0u}, {0, 28, 28}, {10, 0, 28}}) {
    const absl::Status status =
        ReadIdxShape(WritePlain("absurd", Header(shape)), 3).status();
    EXPECT_THAT(std::string(status.message()), HasSubstr("header claims"));
  }
}

proto::Data TwoSplits(uint32_t train_labels, uint32_t test_height) {
  proto::Data data;
  proto::Idx* idx = data.mutable_idx();
  idx->set_train_images(WritePlain("a", Header({6, 4, 5}) + Values(120)));
  idx->set_train_labels(
      WritePlain("b", Header({train_labels}) + Values(train_labels)));
  idx->set_test_images(WritePlain("c", Header({2, test_height, 5})));
  idx->set_test_labels(WritePlain("d", Header({2}) + Values(2)));
  return data;
}

TEST(DataShapeTest, HeadersGiveSamplesAndShape) {
  const auto shape = ReadDataShape(TwoSplits(6, 4));
  ASSERT_TRUE(shape.ok()) << shape.status();
  EXPECT_EQ(shape->train_samples, 6);
  EXPECT_EQ(shape->test_samples, 2);
  EXPECT_THAT(shape->input_shape, ElementsAre(1, 4, 5));
  EXPECT_TRUE(shape->classification);
  EXPECT_EQ(shape->classes, 5 * 7 + 1);
  EXPECT_THAT(shape->largest_label_at, testing::StartsWith("sample 5 of "));
}

TEST(DataShapeTest, AnImageWithoutALabelIsRefused) {
  EXPECT_THAT(std::string(ReadDataShape(TwoSplits(5, 4)).status().message()),
              HasSubstr("has 5 labels, expected 6"));
}

TEST(DataShapeTest, TestImagesOfAnotherSizeAreRefused) {
  EXPECT_THAT(std::string(ReadDataShape(TwoSplits(6, 3)).status().message()),
              HasSubstr("images are 3 x 5, expected 4 x 5"));
}

TEST(DataShapeTest, ATestSplitMayBeAbsent) {
  proto::Data data = TwoSplits(6, 4);
  data.mutable_idx()->clear_test_images();
  data.mutable_idx()->clear_test_labels();
  EXPECT_EQ(ReadDataShape(data)->test_samples, 0);
}

TEST(DataShapeTest, LinearRegressionComesFromTheJob) {
  proto::Data data;
  data.mutable_linear_regression()->set_features(7);
  data.mutable_linear_regression()->set_train_samples(100);
  const auto shape = ReadDataShape(data);
  ASSERT_TRUE(shape.ok());
  EXPECT_THAT(shape->input_shape, ElementsAre(7));
  EXPECT_FALSE(shape->classification);
}

TEST(DataShapeTest, NoReaderIsRefused) {
  EXPECT_FALSE(ReadDataShape(proto::Data()).ok());
}

}  // namespace
}  // namespace sluice
