#include "kernels/cuda/ops/linear_sums.h"

#include "common/status_macros.h"

namespace sluice::kernels::cuda {

absl::Status AddBiasAndRelu(GpuDevice* gpu, const std::string& name,
                            int64_t samples, int64_t channels, int64_t pixels,
                            const float* b, bool relu, void* y) {
  if (b != nullptr) {
    return gpu->Launched(name, AddBias(gpu->stream(), gpu->precision(), samples,
                                       channels, pixels, b, relu, y));
  }
  if (!relu) return absl::OkStatus();
  return gpu->Launched(
      name,
      ActivationForward(gpu->stream(), gpu->precision(), ActivationKind::kRelu,
                        samples * channels * pixels, y, y));
}

absl::Status SumBiasGradient(GpuDevice* gpu, const std::string& name,
                             int64_t samples, int64_t channels, int64_t pixels,
                             const void* dy, float* db) {
  const int64_t pairs =
      ChannelSumParts(gpu->precision(), samples, channels, pixels);
  auto parts = gpu->Scratch(pairs * static_cast<int64_t>(sizeof(Pair)));
  if (!parts.ok()) return Named(name, parts.status());
  return gpu->Launched(
      name, BiasGradient(gpu->stream(), gpu->precision(), samples, channels,
                         pixels, dy, reinterpret_cast<Pair*>(*parts), db));
}

absl::Status ZeroGradients(GpuDevice* gpu, const std::string& name,
                           int64_t weights, int64_t biases, float* dw,
                           float* db) {
  SLUICE_RETURN_IF_ERROR(Named(name, gpu->Zero(dw, weights * 4)));
  if (db == nullptr) return absl::OkStatus();
  return Named(name, gpu->Zero(db, biases * 4));
}

}  // namespace sluice::kernels::cuda
