#ifndef SLUICE_KERNELS_DEVICE_H_
#define SLUICE_KERNELS_DEVICE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <variant>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/parameter_range.h"
#include "kernels/operations.h"
#include "kernels/shapes.h"
#include "kernels/vector_op.h"

namespace sluice::kernels {

// Memory of a device, aligned to 64 bytes, freed with the object.
// Thread-compatible.
class Buffer {
 public:
  virtual ~Buffer() = default;
  virtual void* data() = 0;
  float* floats() { return static_cast<float*>(data()); }
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

// The operation of a shape, or why there is none.
template <typename Shape>
using OpOr = absl::StatusOr<std::unique_ptr<typename Shape::Op>>;

// What `make` makes of the shape in `spec`: a device's overloads, one for each
// alternative, which return its `Op` or a status.
template <typename Make>
absl::StatusOr<AnyOp> PrepareEach(const OpSpec& spec, const Make& make) {
  return std::visit(
      [&make]<typename Shape>(const Shape& shape) -> absl::StatusOr<AnyOp> {
        OpOr<Shape> op = make(shape);
        if (!op.ok()) return op.status();
        return AnyOp(*std::move(op));
      },
      spec);
}

class Accelerator;  // In accelerator.h.

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

  // Memory of `bytes`, 0 or more, with anything in it: the host's, unless this
  // is an accelerator. kResourceExhausted names the bytes asked for.
  virtual absl::StatusOr<std::unique_ptr<Buffer>> Allocate(int64_t bytes);

  // This device, where it has a memory of its own. Else nullptr: host arrays
  // can be given to operations without a copy, and each call is done when it
  // returns.
  virtual Accelerator* accelerator() { return nullptr; }

  // For vectors with these ranges, in order and without overlap; maybe none.
  virtual absl::StatusOr<std::unique_ptr<VectorOp>> PrepareVector(
      absl::Span<const ParameterRange> ranges) = 0;

  // The operation of `shape`, one of OpSpec's, for up to `max_samples` samples
  // at once; nullptr where shapes.h says that it is nothing. kInvalidArgument
  // where the device cannot do the shape. REQUIRES: max_samples >= 1.
  template <typename Shape>
  OpOr<Shape> Prepare(const Shape& shape, int64_t max_samples) {
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
