// `seen` is what the derivative is taken from: x for gelu, y for the others,
// which is why only these may overwrite x with y.
#include "kernels/cuda/launch.cuh"

namespace sluice::kernels::cuda {

int ActivationForward(Stream stream, Precision precision, ActivationKind kind,
                      int64_t size, const void* x, void* y) {
  switch (kind) {
    case ActivationKind::kRelu:
      return Map(stream, precision, size, ReluForward{}, x, y);
    case ActivationKind::kTanh:
      return Map(stream, precision, size, TanhForward{}, x, y);
    case ActivationKind::kSigmoid:
      return Map(stream, precision, size, SigmoidForward{}, x, y);
    case ActivationKind::kGelu:
      return Map(stream, precision, size, GeluForward{}, x, y);
  }
  return 0;
}

int ActivationBackward(Stream stream, Precision precision, ActivationKind kind,
                       int64_t size, const void* seen, const void* dy,
                       void* dx) {
  switch (kind) {
    case ActivationKind::kRelu:
      return Map(stream, precision, size, ReluBackward{}, seen, dy, dx);
    case ActivationKind::kTanh:
      return Map(stream, precision, size, TanhBackward{}, seen, dy, dx);
    case ActivationKind::kSigmoid:
      return Map(stream, precision, size, SigmoidBackward{}, seen, dy, dx);
    case ActivationKind::kGelu:
      return Map(stream, precision, size, GeluBackward{}, seen, dy, dx);
  }
  return 0;
}

}  // namespace sluice::kernels::cuda
