// Running statistics (of batch normalisation) are averages over many updates,
// so rounding them at each pull and push would add up. They are sent exactly,
// behind the encoded floats. A chunk of 6 floats in BF16 whose last 2 are
// statistics:
//
//   bytes  0-7    the 4 weights in BF16
//   bytes  8-11   zeros in place of the statistics
//   bytes 12-19   the 2 statistics in FP32
//
// Zeros in place of the statistics keep them from setting the scale of an FP16
// group, and keep all offsets a function of the range alone.
#include "common/wire/wire_format.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include "common/status_macros.h"

namespace sluice {
namespace {

constexpr int64_t kFloat = sizeof(float);

// Uninitialised memory; the caller overwrites all of it.
std::unique_ptr<uint8_t[]> Scratch(int64_t bytes) {
  return std::unique_ptr<uint8_t[]>(new uint8_t[bytes]);
}

}  // namespace

std::vector<ParameterRange> WireFormat::StatisticsIn(
    ParameterRange range) const {
  std::vector<ParameterRange> parts;
  auto next = std::partition_point(
      statistics_.begin(), statistics_.end(),
      [range](const ParameterRange& s) { return s.end <= range.begin; });
  for (; next != statistics_.end() && next->begin < range.end; ++next) {
    parts.push_back({std::max(next->begin, range.begin) - range.begin,
                     std::min(next->end, range.end) - range.begin});
  }
  return parts;
}

int64_t WireFormat::Bytes(FloatType type, ParameterRange range) const {
  int64_t bytes = EncodedBytes(type, range.size());
  if (type == FloatType::kFp32) return bytes;
  for (const ParameterRange& part : StatisticsIn(range)) {
    bytes += part.size() * kFloat;
  }
  return bytes;
}

uint64_t WireFormat::Encode(FloatType type, ParameterRange range,
                            absl::Span<const float> floats,
                            uint8_t* data) const {
  if (type == FloatType::kFp32) return CopyWithChecksum(floats, data);
  uint8_t* exact = data + EncodedBytes(type, range.size());
  const std::vector<ParameterRange> parts = StatisticsIn(range);
  if (parts.empty()) {
    EncodeFloats(type, floats, data);
  } else {
    std::vector<float> trained(floats.begin(), floats.end());
    for (const ParameterRange& part : parts) {
      const int64_t bytes = part.size() * kFloat;
      std::memcpy(exact, floats.data() + part.begin, bytes);
      std::fill_n(trained.begin() + part.begin, part.size(), 0.0f);
      exact += bytes;
    }
    EncodeFloats(type, trained, data);
  }
  return ChunkChecksum({data, static_cast<size_t>(exact - data)});
}

void WireFormat::Read(FloatType type, ParameterRange range, const uint8_t* data,
                      absl::Span<float> floats) const {
  DecodeFloats(type, data, floats);
  const uint8_t* exact = data + EncodedBytes(type, range.size());
  for (const ParameterRange& part : StatisticsIn(range)) {
    const int64_t bytes = part.size() * kFloat;
    std::memcpy(floats.data() + part.begin, exact, bytes);
    exact += bytes;
  }
}

absl::Status WireFormat::Decode(FloatType type, ParameterRange range,
                                const Payload& payload,
                                absl::Span<float> floats,
                                FloatsSeen seen) const {
  if (type == FloatType::kFp32) return payload.CopyTo(floats, seen);
  const int64_t bytes = Bytes(type, range);
  const std::unique_ptr<uint8_t[]> data = Scratch(bytes);
  SLUICE_RETURN_IF_ERROR(
      payload.CopyTo(absl::MakeSpan(data.get(), static_cast<size_t>(bytes))));
  Read(type, range, data.get(), floats);
  seen(floats.size());
  return absl::OkStatus();
}

void WireFormat::Travel(FloatType type, ParameterRange range,
                        absl::Span<float> floats) const {
  if (type == FloatType::kFp32) return;
  const std::unique_ptr<uint8_t[]> data = Scratch(Bytes(type, range));
  Encode(type, range, floats, data.get());
  Read(type, range, data.get(), floats);
}

}  // namespace sluice
