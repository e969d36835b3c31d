#include "common/wire/wire_format.h"

#include <algorithm>
#include <vector>

#include "gtest/gtest.h"

namespace sluice {
namespace {

constexpr FloatType kAll[] = {FloatType::kFp32, FloatType::kBf16,
                              FloatType::kFp16};

// Of 100 floats, the statistics are the last 40 of the first 50, and the last
// one.
const std::vector<ParameterRange> kStatistics = {{10, 50}, {99, 100}};

std::vector<float> Thirds(ParameterRange range) {
  std::vector<float> floats;
  for (int64_t i = range.begin; i < range.end; ++i) floats.push_back(i / 3.0f);
  return floats;
}

std::vector<float> Decoded(const WireFormat& format, FloatType type,
                           ParameterRange range,
                           const std::vector<uint8_t>& data,
                           uint64_t checksum) {
  std::vector<float> floats(range.size());
  const absl::Status status = format.Decode(
      type, range, Payload({data}, checksum), absl::MakeSpan(floats));
  EXPECT_TRUE(status.ok()) << status;
  return floats;
}

bool IsStatistic(int64_t i) { return (i >= 10 && i < 50) || i == 99; }

TEST(WireFormatTest, StatisticsArriveUnchangedAndWhatIsTrainedAsItsType) {
  const WireFormat format(kStatistics);
  const WireFormat without({});
  for (const FloatType type : kAll) {
    for (const ParameterRange range :
         {ParameterRange{0, 100}, {0, 16}, {16, 48}, {48, 64}, {64, 100}}) {
      const std::vector<float> floats = Thirds(range);
      std::vector<uint8_t> data(format.Bytes(type, range));
      const uint64_t checksum = format.Encode(type, range, floats, data.data());
      EXPECT_EQ(checksum, ChunkChecksum(absl::MakeConstSpan(data)));
      // The other floats are encoded as if the statistics were zeros.
      std::vector<float> trained = floats;
      for (int64_t i = range.begin; i < range.end; ++i) {
        if (IsStatistic(i)) trained[i - range.begin] = 0;
      }
      without.Travel(type, range, absl::MakeSpan(trained));
      const std::vector<float> arrived =
          Decoded(format, type, range, data, checksum);
      for (int64_t i = range.begin; i < range.end; ++i) {
        const int64_t at = i - range.begin;
        EXPECT_EQ(arrived[at], IsStatistic(i) ? floats[at] : trained[at]);
      }
      std::vector<float> travelled = floats;
      format.Travel(type, range, absl::MakeSpan(travelled));
      EXPECT_EQ(travelled, arrived);
    }
  }
}

TEST(WireFormatTest, StatisticsTakeFourBytesMoreUnlessAllFloatsDo) {
  const WireFormat format(kStatistics);
  EXPECT_EQ(format.Bytes(FloatType::kFp32, {0, 100}), 400);
  EXPECT_EQ(format.Bytes(FloatType::kBf16, {0, 100}), 200 + 4 * 41);
  EXPECT_EQ(format.Bytes(FloatType::kFp16, {0, 100}), 200 + 7 + 4 * 41);
  EXPECT_EQ(format.Bytes(FloatType::kBf16, {48, 64}), 32 + 4 * 2);
  EXPECT_EQ(format.Bytes(FloatType::kBf16, {64, 80}), 32);
}

TEST(WireFormatTest, AWrongSizeOrChecksumIsRefusedInEveryType) {
  const WireFormat format(kStatistics);
  for (const FloatType type : kAll) {
    const ParameterRange range = {0, 100};
    std::vector<uint8_t> data(format.Bytes(type, range));
    const uint64_t checksum =
        format.Encode(type, range, Thirds(range), data.data());
    std::vector<float> floats(100, -1);
    EXPECT_EQ(format
                  .Decode(type, range, Payload({data}, checksum + 1),
                          absl::MakeSpan(floats))
                  .code(),
              absl::StatusCode::kDataLoss);
    data.pop_back();
    floats.assign(100, -1);
    EXPECT_EQ(format
                  .Decode(type, range, Payload({data}, checksum),
                          absl::MakeSpan(floats))
                  .code(),
              absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(floats, std::vector<float>(100, -1));
  }
}

TEST(WireFormatTest, CutIntoChunksAVectorArrivesAsAWhole) {
  const WireFormat format(kStatistics);
  for (const FloatType type : kAll) {
    std::vector<float> whole = Thirds({0, 100});
    std::vector<float> cut = whole;
    format.Travel(type, {0, 100}, absl::MakeSpan(whole));
    for (int64_t at = 0; at < 100; at += 32) {
      const int64_t end = std::min<int64_t>(at + 32, 100);
      format.Travel(type, {at, end}, absl::MakeSpan(cut).subspan(at, end - at));
    }
    EXPECT_EQ(cut, whole);
  }
}

}  // namespace
}  // namespace sluice
