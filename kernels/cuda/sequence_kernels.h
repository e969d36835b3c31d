#ifndef SLUICE_KERNELS_CUDA_SEQUENCE_KERNELS_H_
#define SLUICE_KERNELS_CUDA_SEQUENCE_KERNELS_H_

#include <cstdint>

#include "kernels/cuda/kernels.h"
#include "kernels/shapes.h"

// The own kernels over sequences. What kernels.h says of all holds for these.
namespace sluice::kernels::cuda {

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

}  // namespace sluice::kernels::cuda

#endif  // SLUICE_KERNELS_CUDA_SEQUENCE_KERNELS_H_
