#ifndef SLUICE_KERNELS_CPU_CPU_OPS_H_
#define SLUICE_KERNELS_CPU_CPU_OPS_H_

#include <memory>

#include "absl/status/statusor.h"
#include "kernels/cpu/onednn.h"
#include "kernels/device.h"

// The CPU device's operations. `context` must outlive them; sizes are as for
// Device's Prepare methods. What takes `max_samples` prepares oneDNN for it, on
// a thread that has called EnterComputeThreads(context->threads), and is
// refused with kInvalidArgument where oneDNN cannot do it.
namespace sluice::kernels {

absl::StatusOr<std::unique_ptr<LinearOp>> MakeCpuDense(
    const OneDnnContext* context, const DenseShape& shape, int64_t max_samples);

absl::StatusOr<std::unique_ptr<LinearOp>> MakeCpuConv2d(
    const OneDnnContext* context, const Conv2dShape& shape,
    int64_t max_samples);

std::unique_ptr<MapOp> MakeCpuMaxPool(const OneDnnContext* context,
                                      const PoolShape& shape);
std::unique_ptr<MapOp> MakeCpuAveragePool(const OneDnnContext* context,
                                          const PoolShape& shape);
std::unique_ptr<MapOp> MakeCpuGlobalAveragePool(const OneDnnContext* context,
                                                int64_t channels,
                                                int64_t pixels);

// NaN stays NaN.
inline float ReluOf(float x) { return x <= 0 ? 0 : x; }
// y = relu of x, which may be y.
void CpuReluForward(const OneDnnContext& context, int64_t size, const float* x,
                    float* y);
std::unique_ptr<MapOp> MakeCpuRelu(const OneDnnContext* context, int64_t size);
absl::StatusOr<std::unique_ptr<MapOp>> MakeCpuTanh(const OneDnnContext* context,
                                                   int64_t size,
                                                   int64_t max_samples);
absl::StatusOr<std::unique_ptr<MapOp>> MakeCpuSigmoid(
    const OneDnnContext* context, int64_t size, int64_t max_samples);
absl::StatusOr<std::unique_ptr<MapOp>> MakeCpuGelu(const OneDnnContext* context,
                                                   int64_t size,
                                                   int64_t max_samples);

std::unique_ptr<DropoutOp> MakeCpuDropout(const OneDnnContext* context,
                                          int64_t size, double rate);
std::unique_ptr<SumOp> MakeCpuSum(const OneDnnContext* context, int64_t size,
                                  bool relu);

std::unique_ptr<BatchNormOp> MakeCpuBatchNorm(const OneDnnContext* context,
                                              const BatchNormShape& shape);

std::unique_ptr<EmbeddingOp> MakeCpuEmbedding(const OneDnnContext* context,
                                              const EmbeddingShape& shape);
std::unique_ptr<LayerNormOp> MakeCpuLayerNorm(const OneDnnContext* context,
                                              const LayerNormShape& shape);
// On a thread as above.
absl::StatusOr<std::unique_ptr<MapOp>> MakeCpuAttention(
    const OneDnnContext* context, const AttentionShape& shape);

std::unique_ptr<VectorOp> MakeCpuVectorOp(
    const OneDnnContext* context, absl::Span<const ParameterRange> ranges);

std::unique_ptr<SoftmaxCrossEntropyOp> MakeCpuSoftmaxCrossEntropy(
    int64_t classes);
std::unique_ptr<MeanSquaredErrorOp> MakeCpuMeanSquaredError(int64_t outputs);

}  // namespace sluice::kernels

#endif  // SLUICE_KERNELS_CPU_CPU_OPS_H_
