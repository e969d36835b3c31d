#ifndef SLUICE_COMMON_WIRE_FLOAT_TYPE_H_
#define SLUICE_COMMON_WIRE_FLOAT_TYPE_H_

namespace sluice {

// The encodings of floats on the wire; the numbers are those of FloatType in
// proto/job.proto.
enum class FloatType { kUnspecified = 0, kFp32 = 1, kBf16 = 2, kFp16 = 3 };

constexpr bool IsFloatType(FloatType type) {
  return type == FloatType::kFp32 || type == FloatType::kBf16 ||
         type == FloatType::kFp16;
}

// "BF16".
constexpr const char* NameOf(FloatType type) {
  switch (type) {
    case FloatType::kFp32:
      return "FP32";
    case FloatType::kBf16:
      return "BF16";
    case FloatType::kFp16:
      return "FP16";
    case FloatType::kUnspecified:
      break;
  }
  return "of no known type";
}

// The types that a job has chosen.
struct WireTypes {
  FloatType pull = FloatType::kFp32;
  FloatType push = FloatType::kFp32;
};

}  // namespace sluice

#endif  // SLUICE_COMMON_WIRE_FLOAT_TYPE_H_
