#ifndef SLUICE_KERNELS_CUDA_KERNELS_H_
#define SLUICE_KERNELS_CUDA_KERNELS_H_

#include <cstdint>

#include "kernels/shapes.h"

// The own kernels of the CUDA device. What all have in common:
//
// Shapes    as kernels/operations.h and shapes.h say. Nothing happens where
//           there is nothing to write. No array has more than kLargestArray
//           floats.
// Memory    device memory, aligned as float. 16 bytes at a time are moved where
//           all arrays of a call are aligned to that; the bits are the same
//           where they are not.
// Stream    asynchronous: they return when the work is in `stream`. The caller
//           keeps the arrays until it is done.
// Errors    a cudaError_t, 0 for none.
// Numerics  one rounding for every operation that a formula shows, unless said;
//           sums in double, in an order that depends on the sizes alone.
struct CUstream_st;

namespace sluice::kernels::cuda {

using Stream = CUstream_st*;

// Two sums that are taken together.
struct Pair {
  double first;
  double second;
};

// ---- Elementwise, in place where MapOp says so: activations.cu

enum class ActivationKind { kRelu, kTanh, kSigmoid, kGelu };

int ActivationForward(Stream stream, ActivationKind kind, int64_t size,
                      const float* x, float* y);
// `seen` is x for gelu, else y.
int ActivationBackward(Stream stream, ActivationKind kind, int64_t size,
                       const float* seen, const float* dy, float* dx);

// ---- Elementwise: elementwise.cu

// y = a + b; y may be either.
int Sum(Stream stream, int64_t size, const float* a, const float* b, float* y);
// Which of a key's numbers dropout takes.
struct DropoutDraw {
  uint64_t key;
  uint64_t first;
};
// *to = draw, in device memory.
int StoreDraw(Stream stream, const DropoutDraw& draw, DropoutDraw* to);
// DropoutOp::Run with a draw, of `size` numbers that have `draw->first` before
// them; y may be x. `draw` is device memory.
int Dropout(Stream stream, int64_t size, double rate, const DropoutDraw* draw,
            const float* x, float* y);
// y += b, with y (samples, channels, pixels) and b (channels), or relu of that.
int AddBias(Stream stream, int64_t samples, int64_t channels, int64_t pixels,
            const float* b, bool relu, float* y);

// ---- Windows: pool.cu

int MaxPoolForward(Stream stream, const PoolShape& shape, int64_t samples,
                   const float* x, float* y);
int MaxPoolBackward(Stream stream, const PoolShape& shape, int64_t samples,
                    const float* x, const float* dy, float* dx);
int AveragePoolForward(Stream stream, const PoolShape& shape, int64_t samples,
                       const float* x, float* y);
int AveragePoolBackward(Stream stream, const PoolShape& shape, int64_t samples,
                        const float* dy, float* dx);
int GlobalAveragePoolForward(Stream stream, int64_t planes, int64_t pixels,
                             const float* x, float* y);
int GlobalAveragePoolBackward(Stream stream, int64_t planes, int64_t pixels,
                              const float* dy, float* dx);

// ---- Sums over channels: channel_sums.cu

// Pairs that the sums over `samples` of (channels, pixels) need as scratch.
int64_t ChannelSumParts(int64_t samples, int64_t channels, int64_t pixels);

// db = sum of dy over samples and pixels. REQUIRES: samples >= 1.
int BiasGradient(Stream stream, int64_t samples, int64_t channels,
                 int64_t pixels, const float* dy, Pair* parts, float* db);

// BatchNormOp's mean and variance, from one pass over x.
// REQUIRES: samples >= 1.
int BatchNormStatistics(Stream stream, const BatchNormShape& shape,
                        int64_t samples, const float* x, Pair* parts,
                        float* mean, float* variance);
// y = (x - mean) factor + beta with factor = gamma / sqrt(variance + epsilon)
// rounded once; `factor` (channels) is scratch.
int BatchNormApply(Stream stream, const BatchNormShape& shape, int64_t samples,
                   const float* x, const float* gamma, const float* beta,
                   const float* mean, const float* variance, float* factor,
                   float* y);
// BatchNormOp::Backward. `table` (3, channels) is scratch.
// REQUIRES: samples >= 1.
int BatchNormBackward(Stream stream, const BatchNormShape& shape,
                      int64_t samples, const float* x, const float* gamma,
                      const float* mean, const float* variance, const float* dy,
                      Pair* parts, float* table, float* dx, float* dgamma,
                      float* dbeta);

// The gradients at gamma and beta of `rows` rows of `features`, whose
// `statistics` LayerNormBackward wrote. REQUIRES: rows >= 1.
int LayerNormParameterGradients(Stream stream, int64_t rows, int64_t features,
                                const float* x, const float* dy,
                                const float* statistics, Pair* parts,
                                float* dgamma, float* dbeta);

// ---- Sequences: embedding.cu, layer_norm.cu, attention.cu

int EmbeddingForward(Stream stream, const EmbeddingShape& shape,
                     int64_t samples, const float* x, const float* token,
                     const float* position, float* y);
// EmbeddingOp's dtoken. That of the positions is a BiasGradient.
// REQUIRES: samples >= 1.
int EmbeddingTokenGradient(Stream stream, const EmbeddingShape& shape,
                           int64_t samples, const float* x, const float* dy,
                           bool add, float* dtoken);

// Of `rows` rows in all; shape.rows is not looked at.
int LayerNormForward(Stream stream, const LayerNormShape& shape, int64_t rows,
                     const float* x, const float* gamma, const float* beta,
                     float* y);
// `dx` is left out when it is nullptr. Into `statistics` (rows, 2): the mean,
// and the inverse of the deviation.
int LayerNormBackward(Stream stream, const LayerNormShape& shape, int64_t rows,
                      const float* x, const float* gamma, const float* dy,
                      float* statistics, float* dx);

// `to` (samples, heads, length, head_size) is part `part` of `from` (samples,
// length, parts, heads, head_size).
int SplitHeads(Stream stream, const AttentionShape& shape, int64_t samples,
               int64_t parts, int64_t part, const float* from, float* to);
// The way back, from one array for each of 1 or 3 parts.
int MergeHeads(Stream stream, const AttentionShape& shape, int64_t samples,
               int64_t parts, const float* const from[3], float* to);
// Of `scores` (samples, heads, length, length), in place: the softmax over
// j <= i of each row i, times 1 / sqrt(head_size); 0 for j > i.
int CausalSoftmax(Stream stream, const AttentionShape& shape, int64_t samples,
                  float* scores);
// From the probabilities, and the gradient at them, to that at the scores, in
// place.
int CausalSoftmaxGradient(Stream stream, const AttentionShape& shape,
                          int64_t samples, const float* probabilities,
                          float* gradient);

// ---- Losses: losses.cu

// Pairs that a loss over `samples` of `width` needs as scratch.
int64_t LossParts(int64_t samples, int64_t width);

// Into `total`, in device memory: the losses' sum over the samples, and how
// many are correct. REQUIRES: samples >= 1. `scale` and `dlogits` as
// SoftmaxCrossEntropyOp says.
int SoftmaxCrossEntropy(Stream stream, int64_t classes, int64_t samples,
                        const float* logits, const int32_t* labels, float scale,
                        float* dlogits, Pair* parts, Pair* total);
// Likewise; nothing is correct.
int MeanSquaredError(Stream stream, int64_t width, int64_t samples,
                     const float* outputs, const float* targets, float scale,
                     float* doutputs, Pair* parts, Pair* total);

// ---- Convolution by its formula: direct_conv.cu
//
// For shapes that cuDNN refuses: a thread for every sum, which is taken in
// double and rounded once. Slow.

// y without the bias.
int DirectConvForward(Stream stream, const Conv2dShape& shape, int64_t samples,
                      const float* x, const float* w, float* y);
int DirectConvInputGradient(Stream stream, const Conv2dShape& shape,
                            int64_t samples, const float* w, const float* dy,
                            float* dx);
int DirectConvWeightGradient(Stream stream, const Conv2dShape& shape,
                             int64_t samples, const float* x, const float* dy,
                             float* dw);

}  // namespace sluice::kernels::cuda

#endif  // SLUICE_KERNELS_CUDA_KERNELS_H_
