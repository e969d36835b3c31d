#include "kernels/cuda/linear_sums.h"

#include "common/status_macros.h"

namespace sluice::kernels::cuda {

absl::Status AddBiasAndRelu(OpContext* context, const std::string& name,
                            int64_t samples, int64_t channels, int64_t pixels,
                            const float* b, bool relu, void* y) {
  if (b != nullptr) {
    return context->Launched(
        name, AddBias(context->stream(), context->precision(), samples,
                      channels, pixels, b, relu, y));
  }
  if (!relu) return absl::OkStatus();
  return context->Launched(
      name, ActivationForward(context->stream(), context->precision(),
                              ActivationKind::kRelu,
                              samples * channels * pixels, y, y));
}

absl::Status SumBiasGradient(OpContext* context, const std::string& name,
                             int64_t samples, int64_t channels, int64_t pixels,
                             const void* dy, float* db) {
  const int64_t pairs =
      ChannelSumParts(context->precision(), samples, channels, pixels);
  auto parts = context->Scratch(pairs * static_cast<int64_t>(sizeof(Pair)));
  if (!parts.ok()) return Named(name, parts.status());
  return context->Launched(
      name,
      BiasGradient(context->stream(), context->precision(), samples, channels,
                   pixels, dy, reinterpret_cast<Pair*>(*parts), db));
}

absl::Status ZeroGradients(OpContext* context, const std::string& name,
                           int64_t weights, int64_t biases, float* dw,
                           float* db) {
  Backend& backend = context->backend();
  SLUICE_RETURN_IF_ERROR(Named(name, backend.Zero(dw, weights * 4)));
  if (db == nullptr) return absl::OkStatus();
  return Named(name, backend.Zero(db, biases * 4));
}

}  // namespace sluice::kernels::cuda
