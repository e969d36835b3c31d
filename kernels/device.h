#ifndef SLUICE_KERNELS_DEVICE_H_
#define SLUICE_KERNELS_DEVICE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/parameter_range.h"
#include "kernels/memory.h"
#include "kernels/operations.h"
#include "kernels/shapes.h"
#include "kernels/vector_op.h"

namespace sluice::kernels {

// Operations that were recorded, to be run again with the arrays they had, and
// with what these hold by then. It must not outlive its device, nor be run once
// one of the arrays or operations is gone.
//
// Thread-compatible.
class Recording {
 public:
  virtual ~Recording() = default;
  // As the operations, one after the other.
  virtual absl::Status Run() = 0;
};

// Where a model computes: makes operations, each prepared once for a shape
// and executed many times. Operations and buffers must not outlive their
// device.
//
// One thread at a time makes things and executes them.
//
// Thread-compatible.
class Device {
 public:
  virtual ~Device() = default;

  // Everything that decides the bits of results: kind, libraries with their
  // versions, threads, instruction set. Equal text means equal bits.
  virtual std::string Description() const = 0;

  // Sets threads, rounding and denormal mode for operations executed by the
  // calling thread. Cheap; call before a series of operations.
  virtual void EnterThread() = 0;

  // Bytes of a number in an array of activations: those of a float, which such
  // arrays then have in row-major order, or 2, of which only the device knows
  // what they mean and in which order the numbers of a sample lie.
  virtual int64_t activation_bytes() const { return sizeof(float); }

  // Whether device memory is host memory, so that host arrays can be given
  // to operations without a copy.
  virtual bool uses_host_memory() const = 0;
  // Memory of `bytes`, 0 or more, with anything in it. kResourceExhausted names
  // the bytes asked for.
  virtual absl::StatusOr<std::unique_ptr<Buffer>> Allocate(int64_t bytes) = 0;
  // `host` may change when it returns. Copies fail with kInternal.
  virtual absl::Status CopyToDevice(const void* host, void* device,
                                    int64_t bytes) = 0;
  // Waits until `host` holds the bytes.
  virtual absl::Status CopyToHost(const void* device, void* host,
                                  int64_t bytes) = 0;
  virtual absl::StatusOr<std::unique_ptr<Upload>> PrepareUpload() = 0;
  // For parts of up to `bytes` together. kResourceExhausted as Allocate.
  virtual absl::StatusOr<std::unique_ptr<Download>> PrepareDownload(
      int64_t bytes) = 0;
  // Waits until all operations are done and reports their errors.
  virtual absl::Status Synchronize() = 0;
  // To be called between the layers of a pass: waits while more than the last
  // `ahead` stretches between two such calls are not done, so that whoever
  // stops calling operations soon finds the device idle.
  // REQUIRES: 1 <= ahead <= 4.
  virtual absl::Status Pace(int ahead) = 0;

  // Whether it can record at all.
  virtual bool can_record() const { return false; }
  // What `calls` calls, without running it: operations that do not wait, each
  // of which has run before with as many samples, and nothing else of this
  // device. Where anything cannot be recorded: why, and nothing has changed.
  virtual absl::StatusOr<std::unique_ptr<Recording>> Record(
      absl::FunctionRef<absl::Status()> calls) {
    return absl::UnimplementedError("this device records nothing");
  }

  // For vectors with these ranges, in order and without overlap; maybe none.
  virtual absl::StatusOr<std::unique_ptr<VectorOp>> PrepareVector(
      absl::Span<const ParameterRange> ranges) = 0;

  // Each operation computes up to `max_samples` samples at once.
  // REQUIRES: sizes as shapes.h says, max_samples >= 1. kInvalidArgument
  // where the device cannot do the shape.
  //
  // What inputs of `channels` of `pixels` each pass first; nullptr where
  // activations are floats, as inputs are.
  virtual absl::StatusOr<std::unique_ptr<InputOp>> PrepareInput(
      int64_t channels, int64_t pixels, int64_t max_samples) {
    return nullptr;
  }
  // Gives images the row-major order, in which operations without channels
  // (dense among them) read them; nullptr where they have it.
  virtual absl::StatusOr<std::unique_ptr<MapOp>> PrepareFlatten(
      int64_t channels, int64_t pixels, int64_t max_samples) {
    return nullptr;
  }
  virtual absl::StatusOr<std::unique_ptr<LinearOp>> PrepareDense(
      const DenseShape& shape, int64_t max_samples) = 0;
  virtual absl::StatusOr<std::unique_ptr<LinearOp>> PrepareConv2d(
      const Conv2dShape& shape, int64_t max_samples) = 0;
  virtual absl::StatusOr<std::unique_ptr<MapOp>> PrepareMaxPool(
      const PoolShape& shape, int64_t max_samples) = 0;
  virtual absl::StatusOr<std::unique_ptr<MapOp>> PrepareAveragePool(
      const PoolShape& shape, int64_t max_samples) = 0;
  // The mean of each channel of `pixels` numbers.
  virtual absl::StatusOr<std::unique_ptr<MapOp>> PrepareGlobalAveragePool(
      int64_t channels, int64_t pixels, int64_t max_samples) = 0;
  // Elementwise over `size` numbers per sample.
  virtual absl::StatusOr<std::unique_ptr<MapOp>> PrepareRelu(
      int64_t size, int64_t max_samples) = 0;
  virtual absl::StatusOr<std::unique_ptr<MapOp>> PrepareTanh(
      int64_t size, int64_t max_samples) = 0;
  virtual absl::StatusOr<std::unique_ptr<MapOp>> PrepareSigmoid(
      int64_t size, int64_t max_samples) = 0;
  // x (1 + erf(x / sqrt 2)) / 2.
  virtual absl::StatusOr<std::unique_ptr<MapOp>> PrepareGelu(
      int64_t size, int64_t max_samples) = 0;
  // Over (channels, pixels). REQUIRES: 0 <= rate < 1.
  virtual absl::StatusOr<std::unique_ptr<DropoutOp>> PrepareDropout(
      int64_t channels, int64_t pixels, double rate, int64_t max_samples) = 0;
  // Elementwise as well, and with relu of the sum where it is wanted.
  virtual absl::StatusOr<std::unique_ptr<SumOp>> PrepareSum(
      int64_t size, bool relu, int64_t max_samples) = 0;
  virtual absl::StatusOr<std::unique_ptr<BatchNormOp>> PrepareBatchNorm(
      const BatchNormShape& shape, int64_t max_samples) = 0;
  virtual absl::StatusOr<std::unique_ptr<EmbeddingOp>> PrepareEmbedding(
      const EmbeddingShape& shape, int64_t max_samples) = 0;
  virtual absl::StatusOr<std::unique_ptr<LayerNormOp>> PrepareLayerNorm(
      const LayerNormShape& shape, int64_t max_samples) = 0;
  // Scaled dot-product attention to the places up to one's own (Vaswani et al.
  // 2017, 3.2.1, masked). In each head of each sample, with d the head's size:
  //
  //   y_i = sum_j p_ij v_j,  p_i = softmax over j <= i of q_i . k_j / sqrt(d)
  //
  // No y_i depends on a later place, in no bit unless one is NaN. Backward
  // looks at x only.
  virtual absl::StatusOr<std::unique_ptr<MapOp>> PrepareAttention(
      const AttentionShape& shape, int64_t max_samples) = 0;
  virtual absl::StatusOr<std::unique_ptr<SoftmaxCrossEntropyOp>>
  PrepareSoftmaxCrossEntropy(int64_t classes, int64_t max_samples) = 0;
  virtual absl::StatusOr<std::unique_ptr<MeanSquaredErrorOp>>
  PrepareMeanSquaredError(int64_t outputs, int64_t max_samples) = 0;
};

}  // namespace sluice::kernels

#endif  // SLUICE_KERNELS_DEVICE_H_
