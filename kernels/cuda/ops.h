#ifndef SLUICE_KERNELS_CUDA_OPS_H_
#define SLUICE_KERNELS_CUDA_OPS_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/cuda/op_context.h"
#include "kernels/device.h"

// The CUDA device's operations, of Device::Prepare. `context` must outlive
// them.
namespace sluice::kernels::cuda {

absl::StatusOr<std::unique_ptr<InputOp>> MakeOp(OpContext* context,
                                                const InputShape& shape,
                                                int64_t max_samples);
absl::StatusOr<std::unique_ptr<MapOp>> MakeOp(OpContext* context,
                                              const FlattenShape& shape,
                                              int64_t max_samples);
absl::StatusOr<std::unique_ptr<LinearOp>> MakeOp(OpContext* context,
                                                 const DenseShape& shape,
                                                 int64_t max_samples);
absl::StatusOr<std::unique_ptr<LinearOp>> MakeOp(OpContext* context,
                                                 const Conv2dShape& shape,
                                                 int64_t max_samples);
absl::StatusOr<std::unique_ptr<MapOp>> MakeOp(OpContext* context,
                                              const PoolShape& shape,
                                              int64_t max_samples);
absl::StatusOr<std::unique_ptr<MapOp>> MakeOp(
    OpContext* context, const GlobalAveragePoolShape& shape,
    int64_t max_samples);
absl::StatusOr<std::unique_ptr<MapOp>> MakeOp(OpContext* context,
                                              const ActivationShape& shape,
                                              int64_t max_samples);
absl::StatusOr<std::unique_ptr<DropoutOp>> MakeOp(OpContext* context,
                                                  const DropoutShape& shape,
                                                  int64_t max_samples);
absl::StatusOr<std::unique_ptr<SumOp>> MakeOp(OpContext* context,
                                              const SumShape& shape,
                                              int64_t max_samples);
absl::StatusOr<std::unique_ptr<BatchNormOp>> MakeOp(OpContext* context,
                                                    const BatchNormShape& shape,
                                                    int64_t max_samples);
absl::StatusOr<std::unique_ptr<EmbeddingOp>> MakeOp(OpContext* context,
                                                    const EmbeddingShape& shape,
                                                    int64_t max_samples);
absl::StatusOr<std::unique_ptr<LayerNormOp>> MakeOp(OpContext* context,
                                                    const LayerNormShape& shape,
                                                    int64_t max_samples);
absl::StatusOr<std::unique_ptr<MapOp>> MakeOp(OpContext* context,
                                              const AttentionShape& shape,
                                              int64_t max_samples);
absl::StatusOr<std::unique_ptr<SoftmaxCrossEntropyOp>> MakeOp(
    OpContext* context, const SoftmaxCrossEntropyShape& shape,
    int64_t max_samples);
absl::StatusOr<std::unique_ptr<MeanSquaredErrorOp>> MakeOp(
    OpContext* context, const MeanSquaredErrorShape& shape,
    int64_t max_samples);

absl::StatusOr<std::unique_ptr<VectorOp>> MakeVectorOp(
    OpContext* context, absl::Span<const ParameterRange> ranges);

}  // namespace sluice::kernels::cuda

#endif  // SLUICE_KERNELS_CUDA_OPS_H_
