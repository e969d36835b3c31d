// A loss is summed in two steps, by blocks and then over these by one block,
// both in an order that follows from the sizes alone. For the squared error of
// 100,000 numbers:
//
//   391 blocks    each adds up to 256 numbers in double: parts 0 to 390
//   Total         threads 0 to 134 have two parts each, 121 others have one
//
// Of the cross-entropy a sample is a part.
#include "kernels/cuda/kernels/block_sum.cuh"

namespace sluice::kernels::cuda {
namespace {

// Where the largest of some logits is; the first of equal ones.
struct Largest {
  float value;
  uint32_t at;
};

// Over the warp's threads, in all of them.
__device__ inline Largest WarpLargest(Largest mine) {
  for (uint32_t step = kWarp / 2; step > 0; step /= 2) {
    const Largest other = {__shfl_xor_sync(kAllLanes, mine.value, step),
                           __shfl_xor_sync(kAllLanes, mine.at, step)};
    if (other.value > mine.value ||
        (other.value == mine.value && other.at < mine.at)) {
      mine = other;
    }
  }
  // Threads would disagree where a logit is NaN.
  return {__shfl_sync(kAllLanes, mine.value, 0),
          __shfl_sync(kAllLanes, mine.at, 0)};
}

// A warp for each sample: what a thread writes of `dlogits`, it alone has read
// of `logits`, but for the label's, which all have read before.
template <typename Type>
__global__ void __launch_bounds__(kBlock)
    SoftmaxCrossEntropyKernel(uint32_t classes, uint32_t samples,
                              const typename Type::Stored* logits,
                              const int32_t* labels, float scale,
                              typename Type::Stored* dlogits, Pair* parts) {
  const uint32_t n = blockIdx.x * kWarpsOfBlock + threadIdx.x / kWarp;
  const uint32_t lane = threadIdx.x % kWarp;
  if (n >= samples) return;  // The whole warp.
  const auto z = [logits, first = n * classes](uint32_t j) {
    return Type::Widen(logits[first + j]);
  };
  const auto label = static_cast<uint32_t>(labels[n]);
  const float of_label = z(label);
  Largest largest = {-INFINITY, 0xffffffff};
  if (lane < classes) largest = {z(lane), lane};
  for (uint32_t j = lane + kWarp; j < classes; j += kWarp) {
    if (z(j) > largest.value) largest = {z(j), j};
  }
  largest = WarpLargest(largest);
  double sum = 0;
  for (uint32_t j = lane; j < classes; j += kWarp) {
    sum += expf(z(j) - largest.value);
  }
  // In either order of the two the same, so all threads have the same.
  for (uint32_t step = kWarp / 2; step > 0; step /= 2) {
    sum += __shfl_xor_sync(kAllLanes, sum, step);
  }
  __syncwarp();  // All have read of_label.
  if (lane == 0) {
    const double below = static_cast<double>(of_label) - largest.value;
    parts[n] = {log(sum) - below, largest.at == label ? 1.0 : 0.0};
  }
  if (dlogits == nullptr) return;
  for (uint32_t j = lane; j < classes; j += kWarp) {
    const double p = expf(z(j) - largest.value) / sum;
    dlogits[n * classes + j] = Type::Narrow(
        static_cast<float>((j == label ? p - 1 : p) / samples * scale));
  }
}

// Threads take elements a grid apart.
template <typename Type>
__global__ void __launch_bounds__(kBlock)
    MeanSquaredErrorKernel(uint32_t size, uint32_t samples,
                           const typename Type::Stored* outputs,
                           const float* targets, float scale,
                           typename Type::Stored* doutputs, Pair* parts) {
  Pair sum = {0, 0};
  for (uint64_t i = blockIdx.x * kBlock + threadIdx.x; i < size;
       i += gridDim.x * kBlock) {
    const double error =
        static_cast<double>(Type::Widen(outputs[i])) - targets[i];
    sum.first += error * error / 2;
    if (doutputs != nullptr) {
      doutputs[i] = Type::Narrow(static_cast<float>(error / samples * scale));
    }
  }
  sum = BlockSum(sum);
  if (threadIdx.x == 0) parts[blockIdx.x] = sum;
}

// In one block.
__global__ void __launch_bounds__(kBlock)
    TotalKernel(uint32_t count, const Pair* parts, Pair* total) {
  Pair sum = {0, 0};
  for (uint32_t i = threadIdx.x; i < count; i += kBlock) sum = sum + parts[i];
  sum = BlockSum(sum);
  if (threadIdx.x == 0) *total = sum;
}

// Blocks of the squared error: as many as keep a large GPU busy, and no more
// parts than one block adds up at once.
uint32_t SquaredErrorBlocks(int64_t size) {
  const uint32_t most = 4 * kBlock;
  const uint32_t blocks = Blocks(static_cast<uint32_t>(size));
  return blocks < most ? blocks : most;
}

}  // namespace

int Total(Stream stream, uint32_t count, const Pair* parts, Pair* total) {
  return Launch(TotalKernel, {1}, stream, count, parts, total);
}

int64_t LossParts(int64_t samples, int64_t width) {
  const int64_t blocks = SquaredErrorBlocks(samples * width);
  return samples < blocks ? blocks : samples;
}

int SoftmaxCrossEntropy(Stream stream, Precision precision, int64_t classes,
                        int64_t samples, const void* logits,
                        const int32_t* labels, float scale, void* dlogits,
                        Pair* parts, Pair* total) {
  const auto count = static_cast<uint32_t>(samples);
  const int error = WithType(precision, [&](auto type) {
    using Type = decltype(type);
    using Stored = typename Type::Stored;
    return Launch(SoftmaxCrossEntropyKernel<Type>,
                  {Ceiling(count, kWarpsOfBlock)}, stream,
                  static_cast<uint32_t>(classes), count,
                  static_cast<const Stored*>(logits), labels, scale,
                  static_cast<Stored*>(dlogits), parts);
  });
  if (error != 0) return error;
  return Total(stream, count, parts, total);
}

int MeanSquaredError(Stream stream, Precision precision, int64_t width,
                     int64_t samples, const void* outputs, const float* targets,
                     float scale, void* doutputs, Pair* parts, Pair* total) {
  const auto size = static_cast<uint32_t>(samples * width);
  const uint32_t blocks = SquaredErrorBlocks(size);
  const int error = WithType(precision, [&](auto type) {
    using Type = decltype(type);
    using Stored = typename Type::Stored;
    return Launch(MeanSquaredErrorKernel<Type>, {blocks}, stream, size,
                  static_cast<uint32_t>(samples),
                  static_cast<const Stored*>(outputs), targets, scale,
                  static_cast<Stored*>(doutputs), parts);
  });
  if (error != 0) return error;
  return Total(stream, blocks, parts, total);
}

}  // namespace sluice::kernels::cuda
