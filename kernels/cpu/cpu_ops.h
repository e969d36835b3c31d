#ifndef SLUICE_KERNELS_CPU_CPU_OPS_H_
#define SLUICE_KERNELS_CPU_CPU_OPS_H_

#include <memory>

#include "kernels/cpu/onednn.h"
#include "kernels/device.h"

// The CPU device's operations, of Device::Prepare. `context` must outlive them.
// Called on a thread that has called EnterComputeThreads(context->threads).
// kInvalidArgument where oneDNN cannot do the shape.
namespace sluice::kernels {

// Activations are floats in row-major order.
inline OpOr<InputShape> MakeCpuOp(const OneDnnContext*, const InputShape&,
                                  int64_t) {
  return nullptr;
}
inline OpOr<FlattenShape> MakeCpuOp(const OneDnnContext*, const FlattenShape&,
                                    int64_t) {
  return nullptr;
}

OpOr<DenseShape> MakeCpuOp(const OneDnnContext* context,
                           const DenseShape& shape, int64_t max_samples);
OpOr<Conv2dShape> MakeCpuOp(const OneDnnContext* context,
                            const Conv2dShape& shape, int64_t max_samples);
OpOr<PoolShape> MakeCpuOp(const OneDnnContext* context, const PoolShape& shape,
                          int64_t max_samples);
OpOr<GlobalAveragePoolShape> MakeCpuOp(const OneDnnContext* context,
                                       const GlobalAveragePoolShape& shape,
                                       int64_t max_samples);
OpOr<ActivationShape> MakeCpuOp(const OneDnnContext* context,
                                const ActivationShape& shape,
                                int64_t max_samples);
OpOr<DropoutShape> MakeCpuOp(const OneDnnContext* context,
                             const DropoutShape& shape, int64_t max_samples);
OpOr<SumShape> MakeCpuOp(const OneDnnContext* context, const SumShape& shape,
                         int64_t max_samples);
OpOr<BatchNormShape> MakeCpuOp(const OneDnnContext* context,
                               const BatchNormShape& shape,
                               int64_t max_samples);
OpOr<EmbeddingShape> MakeCpuOp(const OneDnnContext* context,
                               const EmbeddingShape& shape,
                               int64_t max_samples);
OpOr<LayerNormShape> MakeCpuOp(const OneDnnContext* context,
                               const LayerNormShape& shape,
                               int64_t max_samples);
OpOr<AttentionShape> MakeCpuOp(const OneDnnContext* context,
                               const AttentionShape& shape,
                               int64_t max_samples);
OpOr<SoftmaxCrossEntropyShape> MakeCpuOp(const OneDnnContext* context,
                                         const SoftmaxCrossEntropyShape& shape,
                                         int64_t max_samples);
OpOr<MeanSquaredErrorShape> MakeCpuOp(const OneDnnContext* context,
                                      const MeanSquaredErrorShape& shape,
                                      int64_t max_samples);

std::unique_ptr<VectorOp> MakeCpuVectorOp(
    const OneDnnContext* context, absl::Span<const ParameterRange> ranges);

// NaN stays NaN.
inline float ReluOf(float x) { return x <= 0 ? 0 : x; }
// y = relu of x, which may be y.
void CpuReluForward(const OneDnnContext& context, int64_t size, const float* x,
                    float* y);

}  // namespace sluice::kernels

#endif  // SLUICE_KERNELS_CPU_CPU_OPS_H_
