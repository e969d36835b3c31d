#ifndef SLUICE_KERNELS_CUDA_OPS_H_
#define SLUICE_KERNELS_CUDA_OPS_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/cuda/op_context.h"
#include "kernels/device.h"

// The CUDA device's operations. `context` must outlive them; sizes are as for
// Device's Prepare methods.
namespace sluice::kernels::cuda {

absl::StatusOr<std::unique_ptr<VectorOp>> MakeVectorOp(
    OpContext* context, absl::Span<const ParameterRange> ranges);

absl::StatusOr<std::unique_ptr<LinearOp>> MakeDense(OpContext* context,
                                                    const DenseShape& shape,
                                                    int64_t max_samples);
absl::StatusOr<std::unique_ptr<LinearOp>> MakeConv2d(OpContext* context,
                                                     const Conv2dShape& shape,
                                                     int64_t max_samples);

absl::StatusOr<std::unique_ptr<InputOp>> MakeInput(OpContext* context,
                                                   int64_t channels,
                                                   int64_t pixels,
                                                   int64_t max_samples);
absl::StatusOr<std::unique_ptr<MapOp>> MakeFlatten(OpContext* context,
                                                   int64_t channels,
                                                   int64_t pixels,
                                                   int64_t max_samples);

enum class PoolKind { kMax, kAverage };
absl::StatusOr<std::unique_ptr<MapOp>> MakePool(OpContext* context,
                                                PoolKind kind,
                                                const PoolShape& shape,
                                                int64_t max_samples);
absl::StatusOr<std::unique_ptr<MapOp>> MakeGlobalAveragePool(
    OpContext* context, int64_t channels, int64_t pixels, int64_t max_samples);
absl::StatusOr<std::unique_ptr<MapOp>> MakeActivation(OpContext* context,
                                                      ActivationKind kind,
                                                      int64_t size,
                                                      int64_t max_samples);

absl::StatusOr<std::unique_ptr<DropoutOp>> MakeDropout(OpContext* context,
                                                       int64_t channels,
                                                       int64_t pixels,
                                                       double rate,
                                                       int64_t max_samples);
absl::StatusOr<std::unique_ptr<SumOp>> MakeSum(OpContext* context, int64_t size,
                                               bool relu, int64_t max_samples);
absl::StatusOr<std::unique_ptr<BatchNormOp>> MakeBatchNorm(
    OpContext* context, const BatchNormShape& shape, int64_t max_samples);

absl::StatusOr<std::unique_ptr<EmbeddingOp>> MakeEmbedding(
    OpContext* context, const EmbeddingShape& shape, int64_t max_samples);
absl::StatusOr<std::unique_ptr<LayerNormOp>> MakeLayerNorm(
    OpContext* context, const LayerNormShape& shape, int64_t max_samples);
absl::StatusOr<std::unique_ptr<MapOp>> MakeAttention(
    OpContext* context, const AttentionShape& shape, int64_t max_samples);

absl::StatusOr<std::unique_ptr<SoftmaxCrossEntropyOp>> MakeSoftmaxCrossEntropy(
    OpContext* context, int64_t classes, int64_t max_samples);
absl::StatusOr<std::unique_ptr<MeanSquaredErrorOp>> MakeMeanSquaredError(
    OpContext* context, int64_t outputs, int64_t max_samples);

}  // namespace sluice::kernels::cuda

#endif  // SLUICE_KERNELS_CUDA_OPS_H_
