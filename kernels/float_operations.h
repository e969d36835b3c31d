#ifndef SLUICE_KERNELS_FLOAT_OPERATIONS_H_
#define SLUICE_KERNELS_FLOAT_OPERATIONS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/operations.h"

// The operations of a device whose activations are row-major floats: what
// operations.h has as `void*` they get as `float*`.
namespace sluice::kernels {

inline const float* Floats(const void* activations) {
  return static_cast<const float*>(activations);
}
inline float* Floats(void* activations) {
  return static_cast<float*>(activations);
}

class FloatLinearOp : public LinearOp {
 public:
  absl::Status Forward(int64_t samples, const void* x, const float* w,
                       const float* b, void* y) final {
    return Forward(samples, Floats(x), w, b, Floats(y));
  }
  absl::Status Backward(int64_t samples, const void* x, const float* w,
                        const void* dy, void* dx, float* dw, float* db) final {
    return Backward(samples, Floats(x), w, Floats(dy), Floats(dx), dw, db);
  }
  virtual absl::Status Forward(int64_t samples, const float* x, const float* w,
                               const float* b, float* y) = 0;
  virtual absl::Status Backward(int64_t samples, const float* x, const float* w,
                                const float* dy, float* dx, float* dw,
                                float* db) = 0;
};

class FloatMapOp : public MapOp {
 public:
  absl::Status Forward(int64_t samples, const void* x, void* y) final {
    return Forward(samples, Floats(x), Floats(y));
  }
  absl::Status Backward(int64_t samples, const void* x, const void* y,
                        const void* dy, void* dx) final {
    return Backward(samples, Floats(x), Floats(y), Floats(dy), Floats(dx));
  }
  virtual absl::Status Forward(int64_t samples, const float* x, float* y) = 0;
  virtual absl::Status Backward(int64_t samples, const float* x, const float* y,
                                const float* dy, float* dx) = 0;
};

class FloatDropoutOp : public DropoutOp {
 public:
  absl::Status Run(int64_t samples, const void* x, void* y) final {
    return Run(samples, Floats(x), Floats(y));
  }
  virtual absl::Status Run(int64_t samples, const float* x, float* y) = 0;
};

class FloatSumOp : public SumOp {
 public:
  absl::Status Run(int64_t samples, const void* a, const void* b,
                   void* y) final {
    return Run(samples, Floats(a), Floats(b), Floats(y));
  }
  virtual absl::Status Run(int64_t samples, const float* a, const float* b,
                           float* y) = 0;
};

class FloatBatchNormOp : public BatchNormOp {
 public:
  absl::Status Normalize(int64_t samples, const void* x, const float* gamma,
                         const float* beta, float* mean, float* variance,
                         void* y) final {
    return Normalize(samples, Floats(x), gamma, beta, mean, variance,
                     Floats(y));
  }
  absl::Status Apply(int64_t samples, const void* x, const float* gamma,
                     const float* beta, const float* mean,
                     const float* variance, void* y) final {
    return Apply(samples, Floats(x), gamma, beta, mean, variance, Floats(y));
  }
  absl::Status Backward(int64_t samples, const void* x, const float* gamma,
                        const float* mean, const float* variance,
                        const void* dy, void* dx, float* dgamma,
                        float* dbeta) final {
    return Backward(samples, Floats(x), gamma, mean, variance, Floats(dy),
                    Floats(dx), dgamma, dbeta);
  }
  virtual absl::Status Normalize(int64_t samples, const float* x,
                                 const float* gamma, const float* beta,
                                 float* mean, float* variance, float* y) = 0;
  virtual absl::Status Apply(int64_t samples, const float* x,
                             const float* gamma, const float* beta,
                             const float* mean, const float* variance,
                             float* y) = 0;
  virtual absl::Status Backward(int64_t samples, const float* x,
                                const float* gamma, const float* mean,
                                const float* variance, const float* dy,
                                float* dx, float* dgamma, float* dbeta) = 0;
};

class FloatEmbeddingOp : public EmbeddingOp {
 public:
  absl::Status Forward(int64_t samples, const float* x, const float* token,
                       const float* position, void* y) final {
    return Forward(samples, x, token, position, Floats(y));
  }
  absl::Status Backward(int64_t samples, const float* x, const void* dy,
                        bool add, float* dtoken, float* dposition) final {
    return Backward(samples, x, Floats(dy), add, dtoken, dposition);
  }
  virtual absl::Status Forward(int64_t samples, const float* x,
                               const float* token, const float* position,
                               float* y) = 0;
  virtual absl::Status Backward(int64_t samples, const float* x,
                                const float* dy, bool add, float* dtoken,
                                float* dposition) = 0;
};

class FloatLayerNormOp : public LayerNormOp {
 public:
  absl::Status Forward(int64_t samples, const void* x, const float* gamma,
                       const float* beta, void* y) final {
    return Forward(samples, Floats(x), gamma, beta, Floats(y));
  }
  absl::Status Backward(int64_t samples, const void* x, const float* gamma,
                        const void* dy, void* dx, float* dgamma,
                        float* dbeta) final {
    return Backward(samples, Floats(x), gamma, Floats(dy), Floats(dx), dgamma,
                    dbeta);
  }
  virtual absl::Status Forward(int64_t samples, const float* x,
                               const float* gamma, const float* beta,
                               float* y) = 0;
  virtual absl::Status Backward(int64_t samples, const float* x,
                                const float* gamma, const float* dy, float* dx,
                                float* dgamma, float* dbeta) = 0;
};

class FloatSoftmaxCrossEntropyOp : public SoftmaxCrossEntropyOp {
 public:
  absl::StatusOr<LossResult> Run(int64_t samples, const void* logits,
                                 const int32_t* labels, float scale,
                                 void* dlogits) final {
    return Run(samples, Floats(logits), labels, scale, Floats(dlogits));
  }
  virtual absl::StatusOr<LossResult> Run(int64_t samples, const float* logits,
                                         const int32_t* labels, float scale,
                                         float* dlogits) = 0;
};

class FloatMeanSquaredErrorOp : public MeanSquaredErrorOp {
 public:
  absl::StatusOr<LossResult> Run(int64_t samples, const void* outputs,
                                 const float* targets, float scale,
                                 void* doutputs) final {
    return Run(samples, Floats(outputs), targets, scale, Floats(doutputs));
  }
  virtual absl::StatusOr<LossResult> Run(int64_t samples, const float* outputs,
                                         const float* targets, float scale,
                                         float* doutputs) = 0;
};

}  // namespace sluice::kernels

#endif  // SLUICE_KERNELS_FLOAT_OPERATIONS_H_
