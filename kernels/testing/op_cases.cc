#include "kernels/testing/op_cases.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "common/random.h"

namespace sluice::kernels {
namespace {

const DenseShape* AsDense(const LinearCase& c) {
  return std::get_if<DenseShape>(&c.shape);
}
const Conv2dShape& AsConv(const LinearCase& c) {
  return std::get<Conv2dShape>(c.shape);
}

LinearCase Dense(int64_t samples, int64_t inputs, int64_t outputs,
                 bool bias = true, bool benchmark = false) {
  LinearCase c;
  c.name = absl::StrCat("dense ", inputs, " to ", outputs,
                        bias ? "" : " no bias", " n", samples);
  c.shape = DenseShape{inputs, outputs, bias};
  c.samples = samples;
  c.benchmark = benchmark;
  return c;
}

LinearCase Conv(int64_t samples, const Conv2dShape& s, bool benchmark = false) {
  LinearCase c;
  c.name = absl::StrCat("conv2d ", s.inputs, "x", s.height, "x", s.width,
                        " to ", s.outputs, ", kernel ", s.kernel, " stride ",
                        s.stride, " padding ", s.padding,
                        s.bias ? "" : " no bias", " n", samples);
  c.shape = s;
  c.samples = samples;
  c.benchmark = benchmark;
  return c;
}

const char* Name(MapKind kind) {
  switch (kind) {
    case MapKind::kMaxPool:
      return "max_pool";
    case MapKind::kAveragePool:
      return "average_pool";
    case MapKind::kGlobalAveragePool:
      return "global_average_pool";
    case MapKind::kRelu:
      return "relu";
    case MapKind::kTanh:
      return "tanh";
    case MapKind::kSigmoid:
      return "sigmoid";
    case MapKind::kGelu:
      return "gelu";
  }
  return "";
}

MapCase Pool(MapKind kind, int64_t samples, const PoolShape& s,
             bool benchmark = false) {
  MapCase c;
  c.name =
      absl::StrCat(Name(kind), " ", s.channels, "x", s.height, "x", s.width,
                   ", kernel ", s.kernel, " stride ", s.stride, " n", samples);
  c.kind = kind;
  c.pool = s;
  c.samples = samples;
  c.benchmark = benchmark;
  return c;
}

MapCase Activation(MapKind kind, int64_t samples, int64_t size,
                   bool benchmark = false) {
  MapCase c;
  c.name = absl::StrCat(Name(kind), " ", size, " n", samples);
  c.kind = kind;
  c.size = size;
  c.samples = samples;
  c.benchmark = benchmark;
  return c;
}

}  // namespace

int64_t LinearCase::input_size() const {
  return std::visit([](const auto& s) { return s.input_size(); }, shape);
}
int64_t LinearCase::output_size() const {
  return std::visit([](const auto& s) { return s.output_size(); }, shape);
}
int64_t LinearCase::weight_size() const {
  return std::visit([](const auto& s) { return s.weight_size(); }, shape);
}
int64_t LinearCase::bias_size() const {
  return std::visit([](const auto& s) { return s.bias_size(); }, shape);
}

int64_t LinearCase::forward_terms() const {
  if (const DenseShape* s = AsDense(*this)) return s->inputs + 1;
  const Conv2dShape& s = AsConv(*this);
  return s.inputs * s.kernel * s.kernel + 1;
}

int64_t LinearCase::input_terms() const {
  if (const DenseShape* s = AsDense(*this)) return s->outputs;
  const Conv2dShape& s = AsConv(*this);
  return s.outputs * s.kernel * s.kernel;
}

int64_t LinearCase::weight_terms() const {
  if (AsDense(*this) != nullptr) return samples;
  const Conv2dShape& s = AsConv(*this);
  return samples * s.output_height() * s.output_width();
}

int64_t LinearCase::operations() const {
  return 2 * samples * output_size() * (forward_terms() - 1);
}

int64_t MapCase::input_size() const {
  return is_activation() ? size : pool.input_size();
}
int64_t MapCase::output_size() const {
  if (kind == MapKind::kGlobalAveragePool) return pool.channels;
  return is_activation() ? size : pool.output_size();
}

std::vector<LinearCase> LinearCases() {
  return {
      // Sizes around vector widths, a prime, and single elements.
      Dense(0, 5, 3),
      Dense(1, 1, 1),
      Dense(1, 31, 33),
      Dense(3, 32, 8),
      Dense(3, 33, 7, /*bias=*/false),
      Dense(5, 1025, 1),
      Dense(64, 127, 17),
      Dense(64, 84, 10),
      // LeNet's, MLP's and softmax regression's own.
      Dense(64, 400, 120, true, /*benchmark=*/true),
      Dense(64, 784, 256, true, /*benchmark=*/true),
      Dense(64, 784, 10, true, /*benchmark=*/true),
      // inputs, height, width, outputs, kernel, stride, padding, bias.
      Conv(0, {1, 4, 4, 2, 3, 1, 0, true}),
      Conv(1, {1, 1, 1, 1, 1, 1, 0, true}),
      Conv(1, {3, 7, 5, 2, 3, 1, 1, true}),
      Conv(3, {2, 13, 11, 5, 3, 2, 1, true}),
      Conv(3, {2, 8, 8, 9, 2, 3, 0, false}),
      Conv(2, {17, 6, 7, 8, 1, 1, 0, true}),
      Conv(2, {8, 9, 9, 16, 3, 1, 1, true}),
      Conv(5, {3, 6, 6, 4, 1, 2, 0, false}),  // A residual's projection.
      Conv(3, {9, 7, 5, 16, 1, 3, 0, true}),
      Conv(2, {5, 4, 6, 7, 1, 2, 1, true}),  // Looks at padding, too.
      Conv(1, {2, 3, 3, 3, 5, 1, 2, true}),  // Kernel larger than the image.
      Conv(1, {1, 2, 2, 1, 2, 2, 2, true}),  // Windows of zeros only.
      // Wider than what it looks at, as VGG's last ones: by sgemm in oneDNN.
      Conv(3, {16, 2, 2, 24, 3, 1, 1, false}),
      Conv(5, {1, 12, 10, 31, 4, 3, 2, true}),
      Conv(64, {1, 28, 28, 6, 5, 1, 2, true}, /*benchmark=*/true),
      Conv(64, {6, 14, 14, 16, 5, 1, 0, true}, /*benchmark=*/true),
  };
}

std::vector<MapCase> MapCases() {
  std::vector<MapCase> cases;
  for (MapKind kind : {MapKind::kMaxPool, MapKind::kAveragePool}) {
    // channels, height, width, kernel, stride, padding.
    cases.push_back(Pool(kind, 0, {2, 4, 4, 2, 2}));
    cases.push_back(Pool(kind, 1, {1, 1, 1, 1, 1}));
    cases.push_back(Pool(kind, 1, {3, 7, 5, 2, 2}));   // Edges left out.
    cases.push_back(Pool(kind, 3, {2, 9, 11, 3, 2}));  // Windows overlap.
    cases.push_back(Pool(kind, 3, {5, 8, 8, 2, 3}));   // Gaps between.
    cases.push_back(Pool(kind, 2, {1, 6, 6, 6, 1}));   // One window.
    cases.push_back(Pool(kind, 2, {1, 5, 13, 3, 1}));
    cases.push_back(Pool(kind, 3, {2, 9, 12, 3, 2, 1}));  // As a ResNet's.
    cases.push_back(Pool(kind, 2, {3, 5, 4, 3, 1, 2}));   // Corners of one.
    cases.push_back(Pool(kind, 2, {2, 1, 2, 4, 3, 3}));   // Smaller images,
    cases.push_back(Pool(kind, 2, {2, 7, 3, 2, 4, 1}));   // gaps, at an edge.
    cases.push_back(Pool(kind, 2, {8, 5, 4, 3, 2, 1}));   // Channels that fill
    cases.push_back(Pool(kind, 1, {24, 4, 5, 2, 2}));     // 16 bytes, or more.
    cases.push_back(Pool(kind, 64, {6, 28, 28, 2, 2}, /*benchmark=*/true));
    cases.push_back(Pool(kind, 64, {16, 10, 10, 2, 2}));
  }
  const auto global = [](int64_t samples, int64_t channels, int64_t height,
                         int64_t width) {
    return Pool(MapKind::kGlobalAveragePool, samples,
                {channels, height, width, 1, 1});
  };
  for (const MapCase& c :
       {global(0, 2, 3, 3), global(1, 1, 1, 1), global(3, 5, 1, 7),
        global(2, 3, 4, 8), global(2, 3, 31, 3), global(2, 8, 3, 3),
        global(3, 40, 2, 5), global(64, 16, 7, 7)}) {
    cases.push_back(c);
  }
  for (MapKind kind :
       {MapKind::kRelu, MapKind::kTanh, MapKind::kSigmoid, MapKind::kGelu}) {
    for (int64_t size : {1, 31, 32, 33, 127}) {
      cases.push_back(Activation(kind, 1, size));
      cases.push_back(Activation(kind, 3, size));
    }
    cases.push_back(Activation(kind, 0, 5));
    cases.push_back(Activation(kind, 64, 6 * 28 * 28, /*benchmark=*/true));
  }
  return cases;
}

std::vector<LossCase> LossCases() {
  return {{1, 1}, {2, 3}, {10, 1}, {10, 64}, {33, 5}, {1025, 2}, {10, 0}};
}

std::vector<BatchNormCase> BatchNormCases() {
  std::vector<BatchNormCase> cases;
  const auto add = [&](int64_t samples, const BatchNormShape& shape,
                       bool benchmark = false) {
    cases.push_back({absl::StrCat("batch_norm ", shape.channels, "x",
                                  shape.pixels, " n", samples),
                     shape, samples, benchmark});
  };
  // channels, pixels, epsilon; one or two numbers a channel may be equal.
  add(0, {3, 4, 1e-5});
  add(1, {1, 1, 0.5});
  add(2, {3, 1, 0.5});
  add(31, {5, 1, 1e-5});
  add(33, {33, 1, 1e-5});
  add(1, {2, 9, 1e-3});
  add(2, {3, 31, 1e-5});
  add(3, {2, 32, 1e-5});
  add(2, {5, 33, 1e-5});
  add(2, {3, 1025, 1e-5});
  add(7, {17, 49, 1e-5});
  add(64, {1025, 1, 1e-5});
  add(130, {9, 1, 1e-5});
  add(64, {16, 28 * 28, 1e-5}, /*benchmark=*/true);
  add(64, {256, 1, 1e-5}, /*benchmark=*/true);
  return cases;
}

LinearCase WithRelu(const LinearCase& c) {
  LinearCase with = c;
  with.name += " relu";
  std::visit([](auto& shape) { shape.relu = true; }, with.shape);
  return with;
}

BatchNormCase WithRelu(const BatchNormCase& c) {
  BatchNormCase with = c;
  with.name += " relu";
  with.shape.relu = true;
  return with;
}

absl::StatusOr<std::unique_ptr<LinearOp>> Prepare(Device* device,
                                                  const LinearCase& c) {
  const int64_t most = std::max<int64_t>(c.samples, 1);
  return std::visit(
      [&](const auto& shape) { return device->Prepare(shape, most); }, c.shape);
}

absl::StatusOr<std::unique_ptr<MapOp>> Prepare(Device* device,
                                               const MapCase& c) {
  const int64_t most = std::max<int64_t>(c.samples, 1);
  PoolShape pool = c.pool;
  const auto activation = [&](ActivationKind kind) {
    return device->Prepare(ActivationShape{kind, c.size}, most);
  };
  switch (c.kind) {
    case MapKind::kMaxPool:
      return device->Prepare(pool, most);
    case MapKind::kAveragePool:
      pool.kind = PoolKind::kAverage;
      return device->Prepare(pool, most);
    case MapKind::kRelu:
      return activation(ActivationKind::kRelu);
    case MapKind::kTanh:
      return activation(ActivationKind::kTanh);
    case MapKind::kSigmoid:
      return activation(ActivationKind::kSigmoid);
    case MapKind::kGelu:
      return activation(ActivationKind::kGelu);
    case MapKind::kGlobalAveragePool:
      return device->Prepare(
          GlobalAveragePoolShape{pool.channels, pool.height * pool.width},
          most);
  }
  return absl::InternalError("no such kind");
}

std::vector<double> UniformValues(int64_t size, uint64_t seed) {
  const Random random(seed, uint64_t{0});
  std::vector<double> values(size);
  for (int64_t i = 0; i < size; ++i) {
    values[i] = 2.0 * random.UniformFloat(i) - 1;
  }
  return values;
}

std::vector<double> SpreadValues(int64_t size, uint64_t seed) {
  std::vector<double> values(size);
  if (size == 0) return values;
  const Permutation order(seed, 0, size);
  const int64_t even = size + size % 2;  // 0 lies between two of the values.
  for (int64_t i = 0; i < size; ++i) {
    values[i] = 4 * ((static_cast<double>(order(i)) + 0.5) / even - 0.5);
  }
  return values;
}

std::vector<float> ToFloats(const std::vector<double>& values) {
  return std::vector<float>(values.begin(), values.end());
}

std::vector<float> Magnitudes(absl::Span<const float> values) {
  std::vector<float> magnitudes;
  for (float value : values) magnitudes.push_back(std::abs(value));
  return magnitudes;
}

std::vector<float> ReluOfEach(absl::Span<const float> values) {
  std::vector<float> of;
  for (float value : values) of.push_back(value <= 0 ? 0 : value);
  return of;
}

std::vector<int32_t> Labels(int64_t samples, int64_t classes, uint64_t seed) {
  const Random random(seed, uint64_t{1});
  std::vector<int32_t> labels(samples);
  for (int64_t n = 0; n < samples; ++n) {
    labels[n] = static_cast<int32_t>(random.Uint64(n) % classes);
  }
  return labels;
}

}  // namespace sluice::kernels
