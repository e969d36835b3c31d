#ifndef SLUICE_KERNELS_TESTING_OP_CASES_H_
#define SLUICE_KERNELS_TESTING_OP_CASES_H_

#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/device.h"

// The declared cases of the operations but dropout and sum. The same list feeds
// the comparison of a device with the reference, the gradient check and the
// benchmark (those with `benchmark`).
namespace sluice::kernels {

struct LinearCase {
  std::string name;  // "dense 784 to 10 n64", for messages.
  std::variant<DenseShape, Conv2dShape> shape;
  int64_t samples = 1;
  bool benchmark = false;

  // Floats of one sample's x and y, of w and b.
  int64_t input_size() const;
  int64_t output_size() const;
  int64_t weight_size() const;
  int64_t bias_size() const;
  // Products summed into one element of y (with the bias), dx, dw (and db).
  int64_t forward_terms() const;
  int64_t input_terms() const;
  int64_t weight_terms() const;
  // Multiplications and additions of Forward over all samples; Backward with dx
  // has twice as many.
  int64_t operations() const;
};

enum class MapKind {
  kMaxPool,
  kAveragePool,
  kGlobalAveragePool,
  kRelu,
  kTanh,
  kSigmoid,
  kGelu,
};

struct MapCase {
  std::string name;
  MapKind kind = MapKind::kRelu;
  PoolShape pool;    // Pooling; the global one ignores kernel and stride.
  int64_t size = 1;  // Activations: floats per sample.
  int64_t samples = 1;
  bool benchmark = false;

  bool is_activation() const { return kind >= MapKind::kRelu; }
  // An activation that may run in place.
  bool in_place() const { return is_activation() && kind != MapKind::kGelu; }
  // Floats of one sample's x and y.
  int64_t input_size() const;
  int64_t output_size() const;
};

struct LossCase {
  int64_t width = 1;  // Classes or outputs.
  int64_t samples = 1;
};

struct BatchNormCase {
  std::string name;
  BatchNormShape shape;
  int64_t samples = 1;
  bool benchmark = false;

  int64_t size() const { return samples * shape.size(); }  // Floats of x.
};

std::vector<LinearCase> LinearCases();
std::vector<MapCase> MapCases();
std::vector<LossCase> LossCases();
std::vector<BatchNormCase> BatchNormCases();

// The case with relu behind its sums, or behind what it normalises.
LinearCase WithRelu(const LinearCase& c);
BatchNormCase WithRelu(const BatchNormCase& c);

// The case's operation, for its samples.
absl::StatusOr<std::unique_ptr<LinearOp>> Prepare(Device* device,
                                                  const LinearCase& c);
absl::StatusOr<std::unique_ptr<MapOp>> Prepare(Device* device,
                                               const MapCase& c);

// `size` numbers in [-1, 1), the same for the same seed.
std::vector<double> UniformValues(int64_t size, uint64_t seed);

// A shuffle of `size` numbers spread evenly over (-2, 2): no two nearer than
// 4 / size to each other, none nearer than 2 / size to 0. So a small step
// crosses no kink of relu or max pooling.
std::vector<double> SpreadValues(int64_t size, uint64_t seed);

std::vector<float> ToFloats(const std::vector<double>& values);

// Absolute values.
std::vector<float> Magnitudes(absl::Span<const float> values);

// NaN stays NaN.
std::vector<float> ReluOfEach(absl::Span<const float> values);

// `samples` labels in [0, classes).
std::vector<int32_t> Labels(int64_t samples, int64_t classes, uint64_t seed);

}  // namespace sluice::kernels

#endif  // SLUICE_KERNELS_TESTING_OP_CASES_H_
