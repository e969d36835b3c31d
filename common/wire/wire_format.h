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

// The `data` of a chunk: what lies in one range of the flat vector, as a type's
// bytes (float_code.h), and behind them the range's running statistics once
// more, as FP32, unless that is the type. For the type's bytes statistics are
// zeros.
//
// REQUIRES, everywhere: IsFloatType(type), and for FP16 a range that begins at
// a multiple of kFloatGroup, as chunks do.
//
// Immutable, therefore thread-safe.
class WireFormat {
 public:
  // `statistics`: ParameterLayout's.
  explicit WireFormat(std::vector<ParameterRange> statistics)
      : statistics_(std::move(statistics)) {}

  int64_t Bytes(FloatType type, ParameterRange range) const;

  // Writes the data of `floats`, those of `range`, and returns its checksum, in
  // one pass over memory where the type is FP32.
  uint64_t Encode(FloatType type, ParameterRange range,
                  absl::Span<const float> floats, uint8_t* data) const;

  // Reads `range` of what was received. Errors: kInvalidArgument where the size
  // is another one, before anything is written; kDataLoss where the checksum
  // is.
  absl::Status Decode(FloatType type, ParameterRange range,
                      const Payload& payload, absl::Span<float> floats) const;

  // What becomes of `floats`, those of `range`, on the way.
  void Travel(FloatType type, ParameterRange range,
              absl::Span<float> floats) const;

 private:
  // The parts of statistics that lie in `range`, counted from its beginning.
  std::vector<ParameterRange> StatisticsIn(ParameterRange range) const;
  void Read(FloatType type, ParameterRange range, const uint8_t* data,
            absl::Span<float> floats) const;

  std::vector<ParameterRange> statistics_;  // In order.
};

}  // namespace sluice

#endif  // SLUICE_COMMON_WIRE_WIRE_FORMAT_H_
