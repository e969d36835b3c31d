// A dropout's thread has whole Philox blocks of four numbers; which numbers a
// block covers follows from the draw, not from the threads, so the mask is the
// same for any number of them. A micro-batch whose first number is 6 begins
// within a block: block 1 gives it numbers 6 and 7, block 2 numbers 8 to 11.
#include <algorithm>

#include "common/random.h"
#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/threads.h"
#include "kernels/cpu/vector_loops.h"

SLUICE_AVX2_BEGIN
namespace sluice::kernels {
namespace {

class CpuDropout : public DropoutOp {
 public:
  CpuDropout(const OneDnnContext* context, int64_t size, double rate)
      : context_(*context),
        size_(size),
        threshold_(static_cast<uint32_t>(rate * 0x1p32)),
        scale_(static_cast<float>(1 / (1 - rate))) {}

  absl::Status SetDraw(std::optional<Draw> draw) override {
    draw_ = draw;
    return absl::OkStatus();
  }

  absl::Status Run(int64_t samples, const void* x_in, void* y_out) override {
    const float* const x = AsFloats(x_in);
    float* const y = AsFloats(y_out);
    const int64_t size = samples * size_;
    if (!draw_.has_value()) {
      if (x != y) std::copy_n(x, size, y);
      return absl::OkStatus();
    }
    // Numbers [first, end) of the draw, four a block; one block costs about as
    // much as touching 32.
    const int64_t first = draw_->first * size_;
    const int64_t end = first + size;
    const int64_t first_block = first / 4;
    const Random random(draw_->key, uint64_t{0});
    ParallelFor(context_.threads, (end + 3) / 4 - first_block, 32,
                [&](int64_t from, int64_t to) {
                  for (int64_t k = from; k < to; ++k) {
                    const int64_t block = first_block + k;
                    const auto bits = random.Block(block);
                    const int64_t stop = std::min(4 * block + 4, end);
                    for (int64_t i = std::max(4 * block, first); i < stop;
                         ++i) {
                      const float v = x[i - first];
                      y[i - first] = bits[i % 4] >= threshold_ ? scale_ * v : 0;
                    }
                  }
                });
    return absl::OkStatus();
  }

 private:
  const OneDnnContext& context_;
  const int64_t size_;
  const uint32_t threshold_;
  const float scale_;
  std::optional<Draw> draw_;
};

class CpuSum : public SumOp {
 public:
  CpuSum(const OneDnnContext* context, int64_t size, bool relu)
      : context_(*context), size_(size), relu_(relu) {}

  absl::Status Run(int64_t samples, const void* a_in, const void* b_in,
                   void* y_out) override {
    const float* const a = AsFloats(a_in);
    const float* const b = AsFloats(b_in);
    float* const y = AsFloats(y_out);
    const auto sum = [=](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) y[i] = a[i] + b[i];
    };
    const auto relu_of_sum = [=](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) y[i] = ReluOf(a[i] + b[i]);
    };
    const int64_t size = samples * size_;
    if (relu_) {
      ParallelFor(context_.threads, size, 1, relu_of_sum);
    } else {
      ParallelFor(context_.threads, size, 1, sum);
    }
    return absl::OkStatus();
  }

 private:
  const OneDnnContext& context_;
  const int64_t size_;
  const bool relu_;
};

}  // namespace

OpOr<DropoutShape> MakeCpuOp(const OneDnnContext* context,
                             const DropoutShape& shape, int64_t) {
  return std::make_unique<CpuDropout>(context, shape.size(), shape.rate);
}

OpOr<SumShape> MakeCpuOp(const OneDnnContext* context, const SumShape& shape,
                         int64_t) {
  return std::make_unique<CpuSum>(context, shape.size, shape.relu);
}

}  // namespace sluice::kernels
SLUICE_AVX2_END
