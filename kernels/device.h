#ifndef SLUICE_KERNELS_DEVICE_H_
#define SLUICE_KERNELS_DEVICE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <variant>

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

// All that a device prepares. What is missing in one of them does not compile.
using OpSpec =
    std::variant<ActivationShape, AttentionShape, BatchNormShape, Conv2dShape,
                 DenseShape, DropoutShape, EmbeddingShape, FlattenShape,
                 GlobalAveragePoolShape, InputShape, LayerNormShape,
                 MeanSquaredErrorShape, PoolShape, SoftmaxCrossEntropyShape,
                 SumShape>;
using AnyOp =
    std::variant<std::unique_ptr<BatchNormOp>, std::unique_ptr<DropoutOp>,
                 std::unique_ptr<EmbeddingOp>, std::unique_ptr<InputOp>,
                 std::unique_ptr<LayerNormOp>, std::unique_ptr<LinearOp>,
                 std::unique_ptr<MapOp>, std::unique_ptr<MeanSquaredErrorOp>,
                 std::unique_ptr<SoftmaxCrossEntropyOp>,
                 std::unique_ptr<SumOp>>;

// What `make` makes of the shape in `spec`: a device's overloads, one for each
// alternative, which return its `Op` or a status.
template <typename Make>
absl::StatusOr<AnyOp> PrepareEach(const OpSpec& spec, const Make& make) {
  return std::visit(
      [&make]<typename Shape>(const Shape& shape) -> absl::StatusOr<AnyOp> {
        absl::StatusOr<std::unique_ptr<typename Shape::Op>> op = make(shape);
        if (!op.ok()) return op.status();
        return AnyOp(*std::move(op));
      },
      spec);
}

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

  // The operation of `shape`, one of OpSpec's, for up to `max_samples` samples
  // at once; nullptr where shapes.h says that it is nothing. kInvalidArgument
  // where the device cannot do the shape. REQUIRES: max_samples >= 1.
  template <typename Shape>
  absl::StatusOr<std::unique_ptr<typename Shape::Op>> Prepare(
      const Shape& shape, int64_t max_samples) {
    absl::StatusOr<AnyOp> op = PrepareAny(shape, max_samples);
    if (!op.ok()) return op.status();
    return std::get<std::unique_ptr<typename Shape::Op>>(*std::move(op));
  }
  // The same with the shape known when it runs. Devices call PrepareEach.
  virtual absl::StatusOr<AnyOp> PrepareAny(const OpSpec& spec,
                                           int64_t max_samples) = 0;
};

}  // namespace sluice::kernels

#endif  // SLUICE_KERNELS_DEVICE_H_
