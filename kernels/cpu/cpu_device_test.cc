#include "kernels/cpu/cpu_device.h"

#include <cstring>
#include <functional>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/reference/reference_device.h"
#include "kernels/testing/op_cases.h"

namespace sluice::kernels {
namespace {

using ::testing::HasSubstr;

// Half the distance from 1 to the next float: the relative error of one
// operation.
constexpr double kUnit = 1.0 / (1 << 24);

// The build compiles this file once for each ceiling: a process has one.
constexpr auto kIsa = CpuOptions::InstructionSet::SLUICE_TEST_ISA;

std::unique_ptr<Device> Cpu(int threads = 1) {
  auto device = MakeCpuDevice({threads, kIsa});
  EXPECT_TRUE(device.ok()) << device.status();
  (*device)->EnterThread();
  return *std::move(device);
}

// Arguments of a linear operation and what it makes of them.
struct LinearRun {
  std::vector<float> x, w, b, dy;
  std::vector<float> y, dx, dw, db;
};

LinearRun LinearArguments(const LinearCase& c) {
  LinearRun run;
  run.x = ToFloats(UniformValues(c.samples * c.input_size(), 1));
  run.w = ToFloats(UniformValues(c.weight_size(), 2));
  run.b = ToFloats(UniformValues(c.bias_size(), 3));
  run.dy = ToFloats(UniformValues(c.samples * c.output_size(), 4));
  return run;
}

LinearRun MagnitudesOf(const LinearRun& run) {
  LinearRun magnitudes;
  magnitudes.x = Magnitudes(run.x);
  magnitudes.w = Magnitudes(run.w);
  magnitudes.b = Magnitudes(run.b);
  magnitudes.dy = Magnitudes(run.dy);
  return magnitudes;
}

// A copy of `values` that begins `offset` floats after a multiple of 64 bytes.
class Placed {
 public:
  Placed(const std::vector<float>& values, int offset)
      : memory_(values.size() + 32) {
    const auto address = reinterpret_cast<uintptr_t>(memory_.data());
    data_ = memory_.data() + (64 - address % 64) % 64 / 4 + offset;
    std::copy(values.begin(), values.end(), data_);
  }
  float* data() { return data_; }

 private:
  std::vector<float> memory_;
  float* data_;
};

// Runs both directions; every array begins `offset` floats after a multiple
// of 64 bytes. Outputs hold NaN before, which must not shine through.
void Execute(LinearOp* op, const LinearCase& c, int offset, LinearRun* run) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  run->y.assign(c.samples * c.output_size(), kNan);
  run->dx.assign(c.samples * c.input_size(), kNan);
  run->dw.assign(c.weight_size(), kNan);
  run->db.assign(c.bias_size(), kNan);
  Placed x(run->x, offset), w(run->w, offset), b(run->b, offset),
      dy(run->dy, offset), y(run->y, offset), dx(run->dx, offset),
      dw(run->dw, offset), db(run->db, offset);
  const bool bias = c.bias_size() > 0;
  const auto forward = op->Forward(c.samples, x.data(), w.data(),
                                   bias ? b.data() : nullptr, y.data());
  ASSERT_TRUE(forward.ok()) << forward;
  const auto backward =
      op->Backward(c.samples, x.data(), w.data(), dy.data(), dx.data(),
                   dw.data(), bias ? db.data() : nullptr);
  ASSERT_TRUE(backward.ok()) << backward;
  std::copy_n(y.data(), run->y.size(), run->y.begin());
  std::copy_n(dx.data(), run->dx.size(), run->dx.begin());
  std::copy_n(dw.data(), run->dw.size(), run->dw.begin());
  std::copy_n(db.data(), run->db.size(), run->db.begin());
}

void ExpectNear(const std::vector<float>& got, const std::vector<float>& want,
                const std::function<double(size_t)>& tolerance,
                const std::string& what) {
  ASSERT_EQ(got.size(), want.size()) << what;
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_LE(std::abs(static_cast<double>(got[i]) - want[i]), tolerance(i))
        << what << "[" << i << "]: got " << got[i] << ", want " << want[i];
  }
}

bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * 4) == 0);
}

void ExpectSameBits(const LinearRun& a, const LinearRun& b) {
  EXPECT_TRUE(SameBits(a.y, b.y)) << "y";
  EXPECT_TRUE(SameBits(a.dx, b.dx)) << "dx";
  EXPECT_TRUE(SameBits(a.dw, b.dw)) << "dw";
  EXPECT_TRUE(SameBits(a.db, b.db)) << "db";
}

// A sum of m products in any order is off by at most m units of the sum of
// their magnitudes (Higham, Accuracy and Stability, 3.1; one more for the
// rounding of the reference). The reference on magnitudes yields that sum.
TEST(CpuDeviceTest, LinearOperationsAgreeWithTheReference) {
  const auto cpu = Cpu();
  const auto reference = MakeReferenceDevice();
  for (const LinearCase& c : LinearCases()) {
    SCOPED_TRACE(c.name);
    LinearRun got = LinearArguments(c), want = got;
    LinearRun size = MagnitudesOf(got);
    auto op = Prepare(cpu.get(), c);
    ASSERT_TRUE(op.ok()) << op.status();
    const auto plain = *Prepare(reference.get(), c);
    Execute(op->get(), c, 0, &got);
    Execute(plain.get(), c, 0, &want);
    Execute(plain.get(), c, 0, &size);
    const auto bound = [](int64_t terms, const std::vector<float>& size) {
      return [terms, &size](size_t i) { return (terms + 1) * kUnit * size[i]; };
    };
    ExpectNear(got.y, want.y, bound(c.forward_terms(), size.y), "y");
    ExpectNear(got.dx, want.dx, bound(c.input_terms(), size.dx), "dx");
    ExpectNear(got.dw, want.dw, bound(c.weight_terms(), size.dw), "dw");
    ExpectNear(got.db, want.db, bound(c.weight_terms(), size.db), "db");
  }
}

TEST(CpuDeviceTest, LinearBitsDoNotDependOnAlignmentNorOnWhatRanBefore) {
  for (int threads : {1, 2}) {
    const auto cpu = Cpu(threads), other = Cpu(threads);
    for (const LinearCase& c : LinearCases()) {
      SCOPED_TRACE(c.name);
      auto op = *Prepare(cpu.get(), c);
      auto fresh = *Prepare(other.get(), c);
      LinearRun first = LinearArguments(c);
      LinearRun moved = first, anew = first;
      Execute(op.get(), c, 0, &first);
      for (int offset :
           threads == 1 ? std::vector<int>{1, 5, 14} : std::vector<int>{5}) {
        Execute(op.get(), c, offset, &moved);
        ExpectSameBits(first, moved);
      }
      Execute(fresh.get(), c, 3, &anew);
      ExpectSameBits(first, anew);
    }
  }
}

TEST(CpuDeviceTest, AShortBatchGivesTheBitsOfAnOperationPreparedForIt) {
  const auto cpu = Cpu();
  for (const LinearCase& c : LinearCases()) {
    if (c.samples < 3) continue;
    SCOPED_TRACE(c.name);
    auto op = *Prepare(cpu.get(), c);
    LinearCase shorter = c;
    shorter.samples = c.samples - 2;
    auto exact = *Prepare(cpu.get(), shorter);
    LinearRun full = LinearArguments(c);
    LinearRun got = LinearArguments(shorter), want = got;
    Execute(op.get(), c, 0, &full);
    Execute(op.get(), shorter, 0, &got);
    Execute(exact.get(), shorter, 0, &want);
    ExpectSameBits(got, want);
    // More sizes than the operation keeps prepared at once.
    for (int64_t n = 1; n <= std::min<int64_t>(c.samples, 6); ++n) {
      LinearCase some = c;
      some.samples = n;
      LinearRun run = LinearArguments(some);
      Execute(op.get(), some, 0, &run);
    }
    LinearRun again = LinearArguments(c);
    Execute(op.get(), c, 0, &again);
    ExpectSameBits(full, again);
  }
}

// Error of the CPU against the reference, in units of the output's magnitude.
double MapTolerance(const MapCase& c, float forward_magnitude) {
  switch (c.kind) {
    case MapKind::kMaxPool:
    case MapKind::kRelu:
      return 0;  // Values are only moved.
    case MapKind::kAveragePool:
      // A sum, the share 1/kernel^2 and its product, and the reference's
      // rounding.
      return (c.pool.kernel * c.pool.kernel + 3) * kUnit * forward_magnitude;
    case MapKind::kTanh:
      // oneDNN's polynomial is good to a few units of the result; the
      // derivative 1 - y^2 rounds three times near 1.
      return 8 * kUnit * forward_magnitude;
    case MapKind::kSigmoid:
      // y is at most 1 and its derivative 1/4.
      return 8 * kUnit;
    case MapKind::kGelu:
      // oneDNN's erf is good to 1.5e-7 (Abramowitz and Stegun 7.1.26) and to
      // its own roundings, times |x| / 2 <= 1; the rest rounds a few times.
      return 1.5e-7 + 8 * kUnit * forward_magnitude;
    case MapKind::kGlobalAveragePool:
      return (c.pool.height * c.pool.width + 2) * kUnit * forward_magnitude;
  }
  return 0;
}

TEST(CpuDeviceTest, PoolingAndActivationsAgreeWithTheReference) {
  for (int threads : {1, 2}) {
    const auto cpu = Cpu(threads);
    const auto reference = MakeReferenceDevice();
    for (const MapCase& c : MapCases()) {
      SCOPED_TRACE(c.name);
      auto op = Prepare(cpu.get(), c);
      ASSERT_TRUE(op.ok()) << op.status();
      const auto plain = *Prepare(reference.get(), c);
      const int64_t in = c.samples * c.input_size();
      const int64_t out = c.samples * c.output_size();
      const auto x = ToFloats(SpreadValues(in, 5));
      const auto dy = ToFloats(UniformValues(out, 6));
      std::vector<float> y(out, 7), dx(in, 7), want_y(out), want_dx(in);
      ASSERT_TRUE((*op)->Forward(c.samples, x.data(), y.data()).ok());
      ASSERT_TRUE(plain->Forward(c.samples, x.data(), want_y.data()).ok());
      ExpectNear(
          y, want_y, [&](size_t) { return MapTolerance(c, 2); }, "y");
      // Both from the reference's y, so that each direction stands alone.
      const float* y0 = want_y.data();
      ASSERT_TRUE(
          (*op)->Backward(c.samples, x.data(), y0, dy.data(), dx.data()).ok());
      ASSERT_TRUE(
          plain->Backward(c.samples, x.data(), y0, dy.data(), want_dx.data())
              .ok());
      // An element of dx takes at most kernel^2 shares of |dy| <= 1.
      const bool overlap =
          c.kind == MapKind::kMaxPool && c.pool.stride < c.pool.kernel;
      const double order = overlap ? c.pool.kernel * c.pool.kernel : 0;
      ExpectNear(
          dx, want_dx,
          [&](size_t) { return MapTolerance(c, 1) + order * order * kUnit; },
          "dx");
    }
  }
}

TEST(CpuDeviceTest, TheFirstOfEqualMaximaTakesTheGradient) {
  const auto cpu = Cpu();
  auto op = *cpu->PrepareMaxPool({1, 2, 4, 2, 2}, 1);
  const std::vector<float> x = {0, 3, 0, 0, 3, 3, 0, 0}, dy = {5, 6};
  std::vector<float> y(2), dx(8);
  ASSERT_TRUE(op->Forward(1, x.data(), y.data()).ok());
  ASSERT_TRUE(op->Backward(1, x.data(), y.data(), dy.data(), dx.data()).ok());
  EXPECT_THAT(y, testing::ElementsAre(3, 0));
  EXPECT_THAT(dx, testing::ElementsAre(0, 5, 6, 0, 0, 0, 0, 0));
}

TEST(CpuDeviceTest, EqualMaximaAreRoutedAsInTheReference) {
  const auto cpu = Cpu();
  const auto reference = MakeReferenceDevice();
  for (const MapCase& c : MapCases()) {
    if (c.kind != MapKind::kMaxPool) continue;
    SCOPED_TRACE(c.name);
    auto op = *Prepare(cpu.get(), c);
    const auto plain = *Prepare(reference.get(), c);
    auto x = ToFloats(UniformValues(c.samples * c.input_size(), 5));
    for (float& v : x) v = std::round(v);  // -1, 0 or 1.
    const std::vector<float> dy(c.samples * c.output_size(), 1);
    std::vector<float> y(dy.size()), dx(x.size(), 7), want(x.size());
    ASSERT_TRUE(op->Forward(c.samples, x.data(), y.data()).ok());
    ASSERT_TRUE(
        op->Backward(c.samples, x.data(), y.data(), dy.data(), dx.data()).ok());
    ASSERT_TRUE(
        plain->Backward(c.samples, x.data(), y.data(), dy.data(), want.data())
            .ok());
    EXPECT_EQ(dx, want);  // Small whole numbers: exact.
  }
}

TEST(CpuDeviceTest, ActivationsWorkInPlace) {
  const auto cpu = Cpu();
  for (const MapCase& c : MapCases()) {
    if (!c.in_place()) continue;
    SCOPED_TRACE(c.name);
    auto op = *Prepare(cpu.get(), c);
    const int64_t size = c.samples * c.input_size();
    auto x = ToFloats(SpreadValues(size, 5));
    auto dy = ToFloats(UniformValues(size, 6));
    std::vector<float> y(size), dx(size);
    ASSERT_TRUE(op->Forward(c.samples, x.data(), y.data()).ok());
    ASSERT_TRUE(op->Forward(c.samples, x.data(), x.data()).ok());
    EXPECT_TRUE(SameBits(x, y));
    ASSERT_TRUE(
        op->Backward(c.samples, y.data(), y.data(), dy.data(), dx.data()).ok());
    ASSERT_TRUE(
        op->Backward(c.samples, x.data(), x.data(), dy.data(), dy.data()).ok());
    EXPECT_TRUE(SameBits(dy, dx));
  }
}

TEST(CpuDeviceTest, AnActivationOfAnElementDoesNotDependOnItsPlace) {
  const auto cpu = Cpu();
  for (MapKind kind : {MapKind::kTanh, MapKind::kSigmoid, MapKind::kGelu}) {
    MapCase c;
    c.kind = kind;
    c.samples = 200;
    auto op = *Prepare(cpu.get(), c);
    for (int n = 1; n < 100; ++n) {
      const std::vector<float> x(n, 0.37f), dy(n, 0.71f);
      std::vector<float> y(n), dx(n);
      ASSERT_TRUE(op->Forward(n, x.data(), y.data()).ok());
      ASSERT_TRUE(
          op->Backward(n, x.data(), y.data(), dy.data(), dx.data()).ok());
      for (float v : y) ASSERT_EQ(v, y[0]) << n;
      for (float v : dx) ASSERT_EQ(v, dx[0]) << n;
    }
  }
}

TEST(CpuDeviceTest, LossesAgreeWithTheReference) {
  const auto cpu = Cpu();
  const auto reference = MakeReferenceDevice();
  for (const LossCase& c : LossCases()) {
    SCOPED_TRACE(testing::Message() << c.width << " n" << c.samples);
    const int64_t size = c.samples * c.width;
    const auto z = ToFloats(SpreadValues(size, 8));
    const auto t = ToFloats(UniformValues(size, 9));
    const auto labels = Labels(c.samples, c.width, 10);
    std::vector<float> got(size), want(size);
    const double share = 1.0 / std::max<int64_t>(c.samples, 1);
    // Each exp is off by a few units and by that of its argument, |z - m| <=
    // 4; their sum by one unit a term; p is at most 1, loss is -log p.
    const double softmax_units = c.width + 12;
    {
      auto op = *cpu->PrepareSoftmaxCrossEntropy(c.width, c.samples + 1);
      auto plain =
          *reference->PrepareSoftmaxCrossEntropy(c.width, c.samples + 1);
      const auto a = op->Run(c.samples, z.data(), labels.data(), got.data());
      const auto b =
          plain->Run(c.samples, z.data(), labels.data(), want.data());
      EXPECT_NEAR(a->loss, b->loss, softmax_units * kUnit);
      EXPECT_EQ(a->correct, b->correct);
      ExpectNear(
          got, want, [&](size_t) { return softmax_units * kUnit * share; },
          "dlogits");
      // Without a gradient, and in place.
      EXPECT_EQ(op->Run(c.samples, z.data(), labels.data(), nullptr)->loss,
                a->loss);
      std::vector<float> both = z;
      EXPECT_EQ(
          op->Run(c.samples, both.data(), labels.data(), both.data())->loss,
          a->loss);
      EXPECT_TRUE(SameBits(both, got));
    }
    auto op = *cpu->PrepareMeanSquaredError(c.width, c.samples + 1);
    auto plain = *reference->PrepareMeanSquaredError(c.width, c.samples + 1);
    const auto a = op->Run(c.samples, z.data(), t.data(), got.data());
    const auto b = plain->Run(c.samples, z.data(), t.data(), want.data());
    // The difference, |z - t| <= 3, rounds once before it is squared.
    EXPECT_NEAR(a->loss, b->loss, 4 * kUnit * b->loss);
    ExpectNear(
        got, want, [&](size_t) { return 3 * 3 * kUnit * share; }, "doutputs");
  }
}

TEST(CpuDeviceTest, NanReachesTheLoss) {
  const auto cpu = Cpu();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::vector<float> x = {nan};
  ASSERT_TRUE((*cpu->PrepareRelu(1, 1))->Forward(1, x.data(), x.data()).ok());
  EXPECT_TRUE(std::isnan(x[0]));
  const std::vector<float> logits = {0, nan};
  const std::vector<int32_t> labels = {0};
  const auto result = (*cpu->PrepareSoftmaxCrossEntropy(2, 1))
                          ->Run(1, logits.data(), labels.data(), nullptr);
  EXPECT_TRUE(std::isnan(result->loss));
}

TEST(CpuDeviceTest, TheDescriptionSaysWhatDecidesTheBits) {
  EXPECT_THAT(Cpu()->Description(), HasSubstr("cpu (oneDNN 2."));
  EXPECT_THAT(Cpu()->Description(), HasSubstr("avx"));
  EXPECT_THAT(Cpu()->Description(), HasSubstr("1 thread)"));
  EXPECT_THAT(Cpu(2)->Description(), HasSubstr("2 threads)"));
}

TEST(CpuDeviceTest, AProcessHasOneCeiling) {
  const std::string here = Cpu()->Description();
  const auto other =
      MakeCpuDevice({1, kIsa == CpuOptions::InstructionSet::kAvx2
                            ? CpuOptions::InstructionSet::kAvx512
                            : CpuOptions::InstructionSet::kAvx2});
  if (other.ok()) {  // A machine without the wider instructions.
    EXPECT_EQ((*other)->Description(), here);
  } else {
    EXPECT_EQ(other.status().code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(other.status().message()),
                HasSubstr("already computes with"));
  }
}

TEST(CpuDeviceTest, ZeroThreadsAreRefused) {
  EXPECT_EQ(MakeCpuDevice({0, kIsa}).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace sluice::kernels
