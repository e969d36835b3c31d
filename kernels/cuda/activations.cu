#include "kernels/cuda/launch.cuh"

namespace sluice::kernels::cuda {

int ActivationForward(Stream stream, ActivationKind kind, int64_t size,
                      const float* x, float* y) {
  switch (kind) {
    case ActivationKind::kRelu:
      return Map(stream, size, ReluForward{}, x, y);
    case ActivationKind::kTanh:
      return Map(stream, size, TanhForward{}, x, y);
    case ActivationKind::kSigmoid:
      return Map(stream, size, SigmoidForward{}, x, y);
    case ActivationKind::kGelu:
      return Map(stream, size, GeluForward{}, x, y);
  }
  return 0;
}

int ActivationBackward(Stream stream, ActivationKind kind, int64_t size,
                       const float* seen, const float* dy, float* dx) {
  switch (kind) {
    case ActivationKind::kRelu:
      return Map(stream, size, ReluBackward{}, seen, dy, dx);
    case ActivationKind::kTanh:
      return Map(stream, size, TanhBackward{}, seen, dy, dx);
    case ActivationKind::kSigmoid:
      return Map(stream, size, SigmoidBackward{}, seen, dy, dx);
    case ActivationKind::kGelu:
      return Map(stream, size, GeluBackward{}, seen, dy, dx);
  }
  return 0;
}

}  // namespace sluice::kernels::cuda
