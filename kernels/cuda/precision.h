#ifndef SLUICE_KERNELS_CUDA_PRECISION_H_
#define SLUICE_KERNELS_CUDA_PRECISION_H_

namespace sluice::kernels {

// What the factors of products are rounded to, in dense, conv2d and attention,
// and what activations and the gradients at them are stored in: 16 bits, or
// floats. Products are added up in FP32, and everything computes with FP32.
enum class Precision {
  kFp32,  // As they are.
  kTf32,  // 10 bits of mantissa behind the leading one, FP32's range.
  kBf16,  // 7 bits, FP32's range.
  kFp16,  // 10 bits, up to 65504.
};

// Whether a number is stored in 16 bits, not as a float.
inline constexpr bool Is16Bit(Precision precision) {
  return precision == Precision::kBf16 || precision == Precision::kFp16;
}

inline constexpr int BytesOf(Precision precision) {
  return Is16Bit(precision) ? 2 : 4;
}

inline constexpr const char* NameOf(Precision precision) {
  switch (precision) {
    case Precision::kFp32:
      return "FP32";
    case Precision::kTf32:
      return "TF32";
    case Precision::kBf16:
      return "BF16";
    case Precision::kFp16:
      return "FP16";
  }
  return "";
}

}  // namespace sluice::kernels

#endif  // SLUICE_KERNELS_CUDA_PRECISION_H_
