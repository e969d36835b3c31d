#ifndef SLUICE_KERNELS_CUDA_KERNELS_KERNELS_H_
#define SLUICE_KERNELS_CUDA_KERNELS_KERNELS_H_

#include <cstdint>

#include "common/parameter_range.h"
#include "kernels/cuda/precision.h"
#include "kernels/shapes.h"

// The own kernels of the CUDA device. What all have in common:
//
// Shapes    as kernels/operations.h and shapes.h say. Nothing happens where
//           there is nothing to write. No array has more than kLargestArray
//           numbers.
// Types     `void*` are activations: in FP32 and TF32 floats, and images as
//           (samples, channels, pixels); in BF16 and FP16 numbers of that type,
//           and images as (samples, pixels, channels).
// Memory    device memory, aligned as its numbers. 16 bytes at a time are moved
//           where all arrays of a call are aligned to that; the bits are the
//           same where they are not.
// Stream    asynchronous: they return when the work is in `stream`. The caller
//           keeps the arrays until it is done.
// Errors    a cudaError_t, 0 for none.
// Numerics  in floats, one rounding for every operation that a formula shows,
//           unless said, and one more to what has 16 bits; sums in double, in
//           an order that depends on the sizes alone.
struct CUstream_st;

namespace sluice::kernels::cuda {

using Stream = CUstream_st*;

// Two sums that are taken together.
struct Pair {
  double first;
  double second;
};

// ---- Elementwise: elementwise.cu

// In place where MapOp says so.
int ActivationForward(Stream stream, Precision precision, ActivationKind kind,
                      int64_t size, const void* x, void* y);
// `seen` is x for gelu, else y.
int ActivationBackward(Stream stream, Precision precision, ActivationKind kind,
                       int64_t size, const void* seen, const void* dy,
                       void* dx);
// y = a + b, or relu of that; y may be either.
int Sum(Stream stream, Precision precision, int64_t size, bool relu,
        const void* a, const void* b, void* y);
// Which of a key's numbers dropout takes.
struct DropoutDraw {
  uint64_t key;
  uint64_t first;
};
// *to = draw, in device memory.
int StoreDraw(Stream stream, const DropoutDraw& draw, DropoutDraw* to);
// DropoutOp::Run with a draw, of whole samples that have `draw->first` numbers
// before them; y may be x. `draw` is device memory.
int Dropout(Stream stream, Precision precision, int64_t samples,
            int64_t channels, int64_t pixels, double rate,
            const DropoutDraw* draw, const void* x, void* y);
// y += b, with y images and b (channels), or relu of that.
int AddBias(Stream stream, Precision precision, int64_t samples,
            int64_t channels, int64_t pixels, const float* b, bool relu,
            void* y);

// ---- Windows: pool.cu

int MaxPoolForward(Stream stream, Precision precision, const PoolShape& shape,
                   int64_t samples, const void* x, void* y);
int MaxPoolBackward(Stream stream, Precision precision, const PoolShape& shape,
                    int64_t samples, const void* x, const void* dy, void* dx);
int AveragePoolForward(Stream stream, Precision precision,
                       const PoolShape& shape, int64_t samples, const void* x,
                       void* y);
int AveragePoolBackward(Stream stream, Precision precision,
                        const PoolShape& shape, int64_t samples, const void* dy,
                        void* dx);
int GlobalAveragePoolForward(Stream stream, Precision precision,
                             int64_t samples, int64_t channels, int64_t pixels,
                             const void* x, void* y);
int GlobalAveragePoolBackward(Stream stream, Precision precision,
                              int64_t samples, int64_t channels, int64_t pixels,
                              const void* dy, void* dx);

// ---- Sums over channels: channel_sums.cu

// Pairs that the sums over `samples` of (channels, pixels) need as scratch.
int64_t ChannelSumParts(Precision precision, int64_t samples, int64_t channels,
                        int64_t pixels);

// db = sum of dy over samples and pixels. REQUIRES: samples >= 1.
int BiasGradient(Stream stream, Precision precision, int64_t samples,
                 int64_t channels, int64_t pixels, const void* dy, Pair* parts,
                 float* db);

// BatchNormOp's mean and variance, from one pass over x.
// REQUIRES: samples >= 1.
int BatchNormStatistics(Stream stream, Precision precision,
                        const BatchNormShape& shape, int64_t samples,
                        const void* x, Pair* parts, float* mean,
                        float* variance);
// y = (x - mean) factor + beta with factor = gamma / sqrt(variance + epsilon)
// rounded once, or relu of that; `factor` (channels) is scratch.
int BatchNormApply(Stream stream, Precision precision,
                   const BatchNormShape& shape, int64_t samples, const void* x,
                   const float* gamma, const float* beta, const float* mean,
                   const float* variance, float* factor, void* y);
// BatchNormOp::Backward. `table` (3, channels) is scratch.
// REQUIRES: samples >= 1.
int BatchNormBackward(Stream stream, Precision precision,
                      const BatchNormShape& shape, int64_t samples,
                      const void* x, const float* gamma, const float* mean,
                      const float* variance, const void* dy, Pair* parts,
                      float* table, void* dx, float* dgamma, float* dbeta);

// ---- Losses: losses.cu

// Pairs that a loss over `samples` of `width` needs as scratch.
int64_t LossParts(int64_t samples, int64_t width);

// Into `total`, in device memory: the losses' sum over the samples, and how
// many are correct. REQUIRES: samples >= 1. `scale` and `dlogits` as
// SoftmaxCrossEntropyOp says.
int SoftmaxCrossEntropy(Stream stream, Precision precision, int64_t classes,
                        int64_t samples, const void* logits,
                        const int32_t* labels, float scale, void* dlogits,
                        Pair* parts, Pair* total);
// Likewise; nothing is correct.
int MeanSquaredError(Stream stream, Precision precision, int64_t width,
                     int64_t samples, const void* outputs, const float* targets,
                     float scale, void* doutputs, Pair* parts, Pair* total);

// ---- Convolution by its formula: direct_conv.cu
//
// For shapes that cuDNN refuses: floats with channels first, and a thread for
// every sum, which is taken in double and rounded once. Slow.

// y without the bias.
int DirectConvForward(Stream stream, const Conv2dShape& shape, int64_t samples,
                      const float* x, const float* w, float* y);
int DirectConvInputGradient(Stream stream, const Conv2dShape& shape,
                            int64_t samples, const float* w, const float* dy,
                            float* dx);
int DirectConvWeightGradient(Stream stream, const Conv2dShape& shape,
                             int64_t samples, const float* x, const float* dy,
                             float* dw);

// The filters (inputs, outputs, kernel, kernel) whose convolution with stride 1
// makes dx of dy: flipped[i][o] is w[o][i] turned by 180 degrees. Both are
// floats and do not overlap.
int FlipFilters(Stream stream, const Conv2dShape& shape, const float* w,
                float* flipped);

// ---- Embedding: embedding.cu

int EmbeddingForward(Stream stream, Precision precision,
                     const EmbeddingShape& shape, int64_t samples,
                     const float* x, const float* token, const float* position,
                     void* y);
// EmbeddingOp's dtoken. That of the positions is a BiasGradient.
// REQUIRES: samples >= 1.
int EmbeddingTokenGradient(Stream stream, Precision precision,
                           const EmbeddingShape& shape, int64_t samples,
                           const float* x, const void* dy, bool add,
                           float* dtoken);

// ---- Layer norm: layer_norm.cu

int LayerNormForward(Stream stream, Precision precision,
                     const LayerNormShape& shape, int64_t samples,
                     const void* x, const float* gamma, const float* beta,
                     void* y);
// Bytes that LayerNormBackward needs as scratch.
int64_t LayerNormScratch(Precision precision, const LayerNormShape& shape,
                         int64_t samples);
// LayerNormOp::Backward. REQUIRES: samples >= 1.
int LayerNormBackward(Stream stream, Precision precision,
                      const LayerNormShape& shape, int64_t samples,
                      const void* x, const float* gamma, const void* dy,
                      void* scratch, void* dx, float* dgamma, float* dbeta);

// ---- Attention: attention.cu

// `to` (samples, heads, length, head_size), of `to_precision`, is part `part`
// of `from` (samples, length, parts, heads, head_size).
int SplitHeads(Stream stream, Precision precision, Precision to_precision,
               const AttentionShape& shape, int64_t samples, int64_t parts,
               int64_t part, const void* from, void* to);
// The way back, from one array for each of 1 or 3 parts.
int MergeHeads(Stream stream, Precision precision, const AttentionShape& shape,
               int64_t samples, int64_t parts, const float* const from[3],
               void* to);
// Of `scores` (samples, heads, length, length), in place: the softmax over
// j <= i of each row i, times 1 / sqrt(head_size); 0 for j > i.
int CausalSoftmax(Stream stream, const AttentionShape& shape, int64_t samples,
                  float* scores);
// From the probabilities, and the gradient at them, to that at the scores, in
// place.
int CausalSoftmaxGradient(Stream stream, const AttentionShape& shape,
                          int64_t samples, const float* probabilities,
                          float* gradient);

// ---- Vectors of the model's size: vectors.cu
//
// They may have any size, and sums are in an order that depends on the pieces
// alone.

// A vector's ranges are cut into pieces, one for each block of threads, so that
// hundreds of ranges are one launch: at the multiples of so many floats of the
// vector, so that only a range's own ends are not groups of four floats. That
// is 32 floats for a thread, eight accesses of 16 bytes: enough that starting a
// block and adding up its threads are little beside them, and few enough that a
// vector of a million floats still has a block for about each multiprocessor of
// a large GPU. A list of pieces has a 2048th of the vector's bytes.
inline constexpr int64_t kPieceFloats = 8192;

// `pieces` are in order, each of up to kPieceFloats, in device memory. Of each
// only what is `within` is read or written.

// As VectorOp's methods. `y` may be `x`.
int ScaleVector(Stream stream, int64_t count, const ParameterRange* pieces,
                ParameterRange within, float a, const float* x, float* y);
int AddVector(Stream stream, int64_t count, const ParameterRange* pieces,
              ParameterRange within, float a, const float* x, float* y);

// Into `total`, in device memory: the sum of the squares, and 0. `parts` is
// scratch, `count` of them. REQUIRES: count >= 1.
int SquaresOfVector(Stream stream, int64_t count, const ParameterRange* pieces,
                    const float* x, Pair* parts, Pair* total);

}  // namespace sluice::kernels::cuda

#endif  // SLUICE_KERNELS_CUDA_KERNELS_KERNELS_H_
