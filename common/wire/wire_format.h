#ifndef SLUICE_COMMON_WIRE_WIRE_FORMAT_H_
#define SLUICE_COMMON_WIRE_WIRE_FORMAT_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/parameter_layout.h"
#include "common/wire/float_code.h"
#include "common/wire/float_type.h"
#include "common/wire/payload.h"

namespace sluice {

// The `data` of a chunk, which covers one range of the flat vector: the floats
// in a wire type's encoding (float_code.h), and for types other than FP32 the
// running statistics of the range after them, once more and exactly, as FP32.
// In the encoded floats statistics are zeros.
//
// REQUIRES, for all methods: IsFloatType(type), and for FP16 a range that
// begins at a multiple of kFloatGroup, as chunks do.
//
// Immutable, therefore thread-safe.
class WireFormat {
 public:
  // `statistics` are those of ParameterLayout.
  explicit WireFormat(std::vector<ParameterRange> statistics)
      : statistics_(std::move(statistics)) {}

  int64_t Bytes(FloatType type, ParameterRange range) const;

  // Writes the data of `floats`, which are those of `range`, and returns its
  // checksum. For FP32 this is one pass over memory.
  uint64_t Encode(FloatType type, ParameterRange range,
                  absl::Span<const float> floats, uint8_t* data) const;

  // Reads `range` from a received payload. Errors: kInvalidArgument if the size
  // is wrong, before anything is written; kDataLoss if the checksum is wrong.
  // `seen` as Payload::CopyTo's.
  absl::Status Decode(FloatType type, ParameterRange range,
                      const Payload& payload, absl::Span<float> floats,
                      FloatsSeen seen = NobodyLooks) const;

  // Rounds `floats`, which are those of `range`, as if they had been sent.
  void Travel(FloatType type, ParameterRange range,
              absl::Span<float> floats) const;

 private:
  // The statistics in `range`, counted from its beginning.
  std::vector<ParameterRange> StatisticsIn(ParameterRange range) const;
  void Read(FloatType type, ParameterRange range, const uint8_t* data,
            absl::Span<float> floats) const;

  std::vector<ParameterRange> statistics_;  // In order.
};

}  // namespace sluice

#endif  // SLUICE_COMMON_WIRE_WIRE_FORMAT_H_
