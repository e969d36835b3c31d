#ifndef SLUICE_KERNELS_CUDA_OPS_OPS_H_
#define SLUICE_KERNELS_CUDA_OPS_OPS_H_

#include <memory>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/cuda/gpu_device.h"

// The CUDA device's operations, of Device::Prepare. `gpu` must outlive them.
namespace sluice::kernels::cuda {

OpOr<InputShape> MakeOp(GpuDevice* gpu, const InputShape& shape,
                        int64_t max_samples);
OpOr<FlattenShape> MakeOp(GpuDevice* gpu, const FlattenShape& shape,
                          int64_t max_samples);
OpOr<DenseShape> MakeOp(GpuDevice* gpu, const DenseShape& shape,
                        int64_t max_samples);
OpOr<Conv2dShape> MakeOp(GpuDevice* gpu, const Conv2dShape& shape,
                         int64_t max_samples);
OpOr<PoolShape> MakeOp(GpuDevice* gpu, const PoolShape& shape,
                       int64_t max_samples);
OpOr<GlobalAveragePoolShape> MakeOp(GpuDevice* gpu,
                                    const GlobalAveragePoolShape& shape,
                                    int64_t max_samples);
OpOr<ActivationShape> MakeOp(GpuDevice* gpu, const ActivationShape& shape,
                             int64_t max_samples);
OpOr<DropoutShape> MakeOp(GpuDevice* gpu, const DropoutShape& shape,
                          int64_t max_samples);
OpOr<SumShape> MakeOp(GpuDevice* gpu, const SumShape& shape,
                      int64_t max_samples);
OpOr<BatchNormShape> MakeOp(GpuDevice* gpu, const BatchNormShape& shape,
                            int64_t max_samples);
OpOr<EmbeddingShape> MakeOp(GpuDevice* gpu, const EmbeddingShape& shape,
                            int64_t max_samples);
OpOr<LayerNormShape> MakeOp(GpuDevice* gpu, const LayerNormShape& shape,
                            int64_t max_samples);
OpOr<AttentionShape> MakeOp(GpuDevice* gpu, const AttentionShape& shape,
                            int64_t max_samples);
OpOr<SoftmaxCrossEntropyShape> MakeOp(GpuDevice* gpu,
                                      const SoftmaxCrossEntropyShape& shape,
                                      int64_t max_samples);
OpOr<MeanSquaredErrorShape> MakeOp(GpuDevice* gpu,
                                   const MeanSquaredErrorShape& shape,
                                   int64_t max_samples);

absl::StatusOr<std::unique_ptr<VectorOp>> MakeVectorOp(
    GpuDevice* gpu, absl::Span<const ParameterRange> ranges);

}  // namespace sluice::kernels::cuda

#endif  // SLUICE_KERNELS_CUDA_OPS_OPS_H_
