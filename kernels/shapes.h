#ifndef SLUICE_KERNELS_SHAPES_H_
#define SLUICE_KERNELS_SHAPES_H_

#include <cstdint>

namespace sluice::kernels {

// What one operation is prepared for: its sizes without the batch dimension,
// and `Op`, its interface in operations.h. All sizes, also those of the output,
// are 1 or more unless noted; weights are row-major FP32, images NCHW where
// activations are floats (see Device::activation_bytes).

class BatchNormOp;
class DropoutOp;
class EmbeddingOp;
class InputOp;
class LayerNormOp;
class LinearOp;
class MapOp;
class MeanSquaredErrorOp;
class SoftmaxCrossEntropyOp;
class SumOp;

// What inputs pass first: nothing where activations are floats, as inputs are.
struct InputShape {
  using Op = InputOp;
  int64_t channels = 1;
  int64_t pixels = 1;
};

// Gives images the row-major order, in which operations without channels (dense
// among them) read them: nothing where they have it.
struct FlattenShape {
  using Op = MapOp;
  int64_t channels = 1;
  int64_t pixels = 1;
};

// y (n, outputs) = x (n, inputs) w^T + b; w (outputs, inputs), b (outputs).
struct DenseShape {
  using Op = LinearOp;
  int64_t inputs = 1;
  int64_t outputs = 1;
  bool bias = true;
  bool relu = false;  // y is then max(0, that); NaN stays NaN.

  int64_t input_size() const { return inputs; }
  int64_t output_size() const { return outputs; }
  int64_t weight_size() const { return outputs * inputs; }
  int64_t bias_size() const { return bias ? outputs : 0; }
};

// Cross-correlation of x (n, inputs, height, width) with
// w (outputs, inputs, kernel, kernel), plus b (outputs).
struct Conv2dShape {
  using Op = LinearOp;
  int64_t inputs = 1;
  int64_t height = 1;  // Of the input, pixels; width likewise.
  int64_t width = 1;
  int64_t outputs = 1;
  int64_t kernel = 1;
  int64_t stride = 1;
  int64_t padding = 0;  // Zeros added on each side; 0 or more.
  bool bias = true;
  bool relu = false;  // As dense's.

  int64_t output_height() const {
    return (height + 2 * padding - kernel) / stride + 1;
  }
  int64_t output_width() const {
    return (width + 2 * padding - kernel) / stride + 1;
  }
  int64_t input_size() const { return inputs * height * width; }
  int64_t output_size() const {
    return outputs * output_height() * output_width();
  }
  int64_t weight_size() const { return outputs * inputs * kernel * kernel; }
  int64_t bias_size() const { return bias ? outputs : 0; }
};

// Square windows over each channel and `padding` beyond its edges; windows that
// would stand over those are left out. What a window has of the padding counts
// for nothing: neither for the maximum nor for the mean. NaN counts as larger
// than every number, so that what diverged before a pool is seen behind it.
enum class PoolKind { kMax, kAverage };
struct PoolShape {
  using Op = MapOp;
  int64_t channels = 1;
  int64_t height = 1;
  int64_t width = 1;
  int64_t kernel = 1;
  int64_t stride = 1;
  int64_t padding = 0;  // On each side; 0 or more, below kernel.
  PoolKind kind = PoolKind::kMax;

  int64_t output_height() const {
    return (height + 2 * padding - kernel) / stride + 1;
  }
  int64_t output_width() const {
    return (width + 2 * padding - kernel) / stride + 1;
  }
  int64_t input_size() const { return channels * height * width; }
  int64_t output_size() const {
    return channels * output_height() * output_width();
  }
};

// The mean of each channel.
struct GlobalAveragePoolShape {
  using Op = MapOp;
  int64_t channels = 1;
  int64_t pixels = 1;
};

// Elementwise. Gelu is x (1 + erf(x / sqrt 2)) / 2.
enum class ActivationKind { kRelu, kTanh, kSigmoid, kGelu };
struct ActivationShape {
  using Op = MapOp;
  ActivationKind kind = ActivationKind::kRelu;
  int64_t size = 1;
};

struct DropoutShape {
  using Op = DropoutOp;
  int64_t channels = 1;
  int64_t pixels = 1;
  double rate = 0.5;  // At least 0, below 1.

  int64_t size() const { return channels * pixels; }
};

struct SumShape {
  using Op = SumOp;
  int64_t size = 1;
  bool relu = false;  // As dense's.
};

// Channels of `pixels` floats each; 1 for an input without width and height.
struct BatchNormShape {
  using Op = BatchNormOp;
  int64_t channels = 1;
  int64_t pixels = 1;
  double epsilon = 1e-5;  // Added to the variance; above 0.
  bool relu = false;      // As dense's.

  int64_t size() const { return channels * pixels; }
};

// Sequences of `length` tokens, numbers in [0, vocabulary), each of which
// becomes `features` floats.
struct EmbeddingShape {
  using Op = EmbeddingOp;
  int64_t length = 1;
  int64_t vocabulary = 1;
  int64_t features = 1;

  int64_t input_size() const { return length; }
  int64_t output_size() const { return length * features; }
  int64_t token_size() const { return vocabulary * features; }
  int64_t position_size() const { return length * features; }
};

// So many rows of `features` floats a sample, each row to mean 0 and variance
// 1; or with `pixels`, where the features are channels of an image, each group
// of channels with its pixels (group norm; Wu, He 2018). With x of the channels
// [g features / groups, (g + 1) features / groups) in group g, their m numbers,
// and c the number's own channel:
//
//   mean_g = 1/m sum x,  variance_g = 1/m sum (x - mean_g)^2
//   y = gamma_c (x - mean_g) / sqrt(variance_g + epsilon) + beta_c
struct LayerNormShape {
  using Op = LayerNormOp;
  int64_t rows = 1;
  int64_t features = 1;
  double epsilon = 1e-5;  // Added to the variance; above 0.
  int64_t groups = 1;     // Divides the features.
  int64_t pixels = 1;     // 1 where there are several rows.

  int64_t size() const { return rows * features * pixels; }
  int64_t group_features() const { return features / groups; }
  int64_t group_size() const { return group_features() * pixels; }
};

// Scaled dot-product attention to the places up to one's own (Vaswani et al.
// 2017, 3.2.1, masked). In each head of each sample, with d the head's size:
//
//   y_i = sum_j p_ij v_j,  p_i = softmax over j <= i of q_i . k_j / sqrt(d)
//
// No y_i depends on a later place, in no bit unless one is NaN. Backward looks
// at x only. x (n, length, 3, heads, head_size): the queries, keys and values
// of each place; y (n, length, heads, head_size).
struct AttentionShape {
  using Op = MapOp;
  int64_t length = 1;
  int64_t heads = 1;
  int64_t head_size = 1;

  int64_t features() const { return heads * head_size; }
  int64_t input_size() const { return length * 3 * features(); }
  int64_t output_size() const { return length * features(); }
};

struct SoftmaxCrossEntropyShape {
  using Op = SoftmaxCrossEntropyOp;
  int64_t classes = 1;
};

struct MeanSquaredErrorShape {
  using Op = MeanSquaredErrorOp;
  int64_t outputs = 1;
};

}  // namespace sluice::kernels

#endif  // SLUICE_KERNELS_SHAPES_H_
