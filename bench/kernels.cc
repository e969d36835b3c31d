// How much of the machine does each operation use?
//
// Expected from arithmetic: products, convolutions and attention are limited by
// multiply-adds, so they should reach the rate of a large matrix product.
// Activations, pooling, norms, embeddings, losses and vector arithmetic only
// move memory, so they should reach the rate of a copy: on the CPU a copy in
// the cache, with arrays as small as LeNet's; with --mib, and on a GPU, a copy
// in memory, of which 0.8 is expected.
//
// Bytes are counted once for each array that a formula reads or writes. Batch
// norm reads its input twice, because the mean is needed before the first
// difference, and so does its backward. A row of layer norm stays in the cache.
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "bench/kernel_bench.h"
#include "bench/kernel_cases.h"
#include "bench/report.h"
#include "common/parameter_range.h"
#include "common/status_macros.h"
#include "kernels/cpu/cpu_device.h"
#include "kernels/cuda/cuda_device.h"

namespace sluice::bench {
namespace {

using kernels::Precision;

struct Options {
  bool avx512 = false;
  bool json = false;
  bool tiny = false;
  std::string device = "cpu";
  int gpu = 0;
  int64_t mib = 0;  // 0: the device's default.
};

const char* Direction(bool backward) {
  return backward ? " backward" : " forward";
}

void LinearBoth(KernelBench* bench, const kernels::LinearCase& c) {
  const auto op = bench->Must(Prepare(bench->device(), c));
  const DeviceArray x = bench->Activations(c.samples * c.input_size());
  const DeviceArray w = bench->Array(c.weight_size());
  const DeviceArray b = bench->Array(c.bias_size());
  const DeviceArray y = bench->Activations(c.samples * c.output_size());
  const auto operations = static_cast<double>(c.operations());
  bench->Operations(c.name + Direction(false), operations, [&] {
    return op->Forward(c.samples, x.data(), w.floats(), b.floats(), y.data());
  });
  const DeviceArray dx = bench->Activations(x.size);
  const DeviceArray dw = bench->Array(w.size);
  const DeviceArray db = bench->Array(b.size);
  bench->Operations(c.name + Direction(true), 2 * operations, [&] {
    return op->Backward(c.samples, x.data(), w.floats(), y.data(), dx.data(),
                        dw.floats(), db.floats());
  });
}

void AttentionBoth(KernelBench* bench, const kernels::AttentionCase& c) {
  const auto op = bench->Must(bench->device()->Prepare(c.shape, c.samples));
  const DeviceArray x = bench->Activations(c.input_size());
  const DeviceArray y = bench->Activations(c.output_size());
  const DeviceArray dy = bench->Activations(y.size, 2);
  const DeviceArray dx = bench->Activations(x.size);
  const auto operations = static_cast<double>(c.operations());
  bench->Operations(c.name + Direction(false), operations,
                    [&] { return op->Forward(c.samples, x.data(), y.data()); });
  // Five products instead of two.
  bench->Operations(c.name + Direction(true), 2.5 * operations, [&] {
    return op->Backward(c.samples, x.data(), y.data(), dy.data(), dx.data());
  });
}

// Whether backward reads an array as large as x. Activations read one of x and
// y, the maximum reads x, means read neither.
bool LooksBack(const kernels::MapCase& c) {
  return c.is_activation() || c.kind == kernels::MapKind::kMaxPool;
}

void MapBoth(KernelBench* bench, const kernels::MapCase& c) {
  const auto op = bench->Must(Prepare(bench->device(), c));
  const DeviceArray x = bench->Activations(c.samples * c.input_size());
  const DeviceArray y = bench->Activations(c.samples * c.output_size());
  const DeviceArray dy = bench->Activations(y.size, 2);
  const DeviceArray dx = bench->Activations(x.size);
  bench->Bytes(c.name + Direction(false), x.bytes + y.bytes, x.size,
               [&] { return op->Forward(c.samples, x.data(), y.data()); });
  bench->Bytes(c.name + Direction(true),
               (LooksBack(c) ? 2 : 1) * x.bytes + y.bytes, x.size, [&] {
                 return op->Backward(c.samples, x.data(), y.data(), dy.data(),
                                     dx.data());
               });
}

void Dropout(KernelBench* bench, const RowsCase& c) {
  const auto op = bench->Must(bench->device()->Prepare(
      kernels::DropoutShape{c.width, /*pixels=*/1, 0.1}, c.samples));
  bench->Must(op->SetDraw(kernels::DropoutOp::Draw{7, 0}));
  const DeviceArray x = bench->Activations(c.size());
  const DeviceArray y = bench->Activations(x.size);
  bench->Bytes(c.name, 2 * x.bytes, x.size,
               [&] { return op->Run(c.samples, x.data(), y.data()); });
}

void Sum(KernelBench* bench, const RowsCase& c) {
  const auto op = bench->Must(
      bench->device()->Prepare(kernels::SumShape{c.width, false}, c.samples));
  const DeviceArray a = bench->Activations(c.size());
  const DeviceArray b = bench->Activations(a.size);
  const DeviceArray y = bench->Activations(a.size);
  bench->Bytes(c.name, 3 * a.bytes, a.size, [&] {
    return op->Run(c.samples, a.data(), b.data(), y.data());
  });
}

void CrossEntropy(KernelBench* bench, const RowsCase& c) {
  const auto op = bench->Must(bench->device()->Prepare(
      kernels::SoftmaxCrossEntropyShape{c.width}, c.samples));
  const DeviceArray labels =
      bench->ArrayOf(kernels::Labels(c.samples, c.width, 1));
  const auto* of = static_cast<const int32_t*>(labels.buffer->data());
  const DeviceArray x = bench->Activations(c.size());
  const DeviceArray dx = bench->Activations(x.size);
  bench->Bytes(c.name, 2 * x.bytes + labels.bytes, x.size, [&] {
    return op->Run(c.samples, x.data(), of, 1, dx.data()).status();
  });
}

void SquaredError(KernelBench* bench, const RowsCase& c) {
  const auto op = bench->Must(bench->device()->Prepare(
      kernels::MeanSquaredErrorShape{c.width}, c.samples));
  const DeviceArray x = bench->Activations(c.size());
  const DeviceArray dx = bench->Activations(x.size);
  const DeviceArray targets = bench->Array(x.size, 2);
  bench->Bytes(c.name, 2 * x.bytes + targets.bytes, x.size, [&] {
    return op->Run(c.samples, x.data(), targets.floats(), 1, dx.data())
        .status();
  });
}

void BatchNormAll(KernelBench* bench, const kernels::BatchNormCase& c) {
  const auto op = bench->Must(bench->device()->Prepare(c.shape, c.samples));
  const auto channels = [&] { return bench->Array(c.shape.channels); };
  const DeviceArray x = bench->Activations(c.size());
  const DeviceArray y = bench->Activations(x.size);
  const DeviceArray gamma = channels(), beta = channels();
  const DeviceArray mean = channels(), variance = channels();
  bench->Bytes(c.name + Direction(false), 3 * x.bytes, x.size, [&] {
    return op->Normalize(c.samples, x.data(), gamma.floats(), beta.floats(),
                         mean.floats(), variance.floats(), y.data());
  });
  bench->Bytes(c.name + " apply", 2 * x.bytes, x.size, [&] {
    return op->Apply(c.samples, x.data(), gamma.floats(), beta.floats(),
                     mean.floats(), variance.floats(), y.data());
  });
  const DeviceArray dy = bench->Activations(x.size, 2);
  const DeviceArray dx = bench->Activations(x.size);
  const DeviceArray dgamma = channels(), dbeta = channels();
  bench->Bytes(c.name + Direction(true), 5 * x.bytes, x.size, [&] {
    return op->Backward(c.samples, x.data(), gamma.floats(), mean.floats(),
                        variance.floats(), dy.data(), dx.data(),
                        dgamma.floats(), dbeta.floats());
  });
}

void LayerNormBoth(KernelBench* bench, const kernels::LayerNormCase& c) {
  const auto op = bench->Must(bench->device()->Prepare(c.shape, c.samples));
  const auto features = [&] { return bench->Array(c.shape.features); };
  const DeviceArray x = bench->Activations(c.size());
  const DeviceArray y = bench->Activations(x.size);
  const DeviceArray gamma = features(), beta = features();
  bench->Bytes(c.name + Direction(false), 2 * x.bytes, x.size, [&] {
    return op->Forward(c.samples, x.data(), gamma.floats(), beta.floats(),
                       y.data());
  });
  const DeviceArray dy = bench->Activations(x.size, 2);
  const DeviceArray dx = bench->Activations(x.size);
  const DeviceArray dgamma = features(), dbeta = features();
  bench->Bytes(c.name + Direction(true), 3 * x.bytes, x.size, [&] {
    return op->Backward(c.samples, x.data(), gamma.floats(), dy.data(),
                        dx.data(), dgamma.floats(), dbeta.floats());
  });
}

// The tables are read or written once.
void EmbeddingBoth(KernelBench* bench, const kernels::EmbeddingCase& c) {
  const auto op = bench->Must(bench->device()->Prepare(c.shape, c.samples));
  const DeviceArray x = bench->ArrayOf(kernels::ToFloats(Tokens(c)));
  const DeviceArray y = bench->Activations(c.size());
  const DeviceArray token = bench->Array(c.shape.token_size());
  const DeviceArray position = bench->Array(c.shape.position_size());
  const int64_t bytes = x.bytes + y.bytes + token.bytes + position.bytes;
  bench->Bytes(c.name + Direction(false), bytes, y.size, [&] {
    return op->Forward(c.samples, x.floats(), token.floats(), position.floats(),
                       y.data());
  });
  bench->Bytes(c.name + Direction(true), bytes, y.size, [&] {
    return op->Backward(c.samples, x.floats(), y.data(), false, token.floats(),
                        position.floats());
  });
}

void VectorAdd(KernelBench* bench, const RowsCase& c) {
  const ParameterRange all = {0, c.size()};
  const auto op = bench->Must(bench->device()->PrepareVector({all}));
  const DeviceArray x = bench->Array(c.size());
  const DeviceArray y = bench->Array(x.size, 2);
  // Small enough that y keeps its magnitude.
  bench->Bytes(c.name, 3 * x.bytes, x.size,
               [&] { return op->Add(all, 1e-9f, x.floats(), y.floats()); });
}

void VectorSquares(KernelBench* bench, const RowsCase& c) {
  const auto op = bench->Must(bench->device()->PrepareVector({{0, c.size()}}));
  const DeviceArray x = bench->Array(c.size());
  bench->Bytes(c.name, x.bytes, x.size,
               [&] { return op->SumOfSquares(x.floats()).status(); });
}

template <typename Case>
void ForEach(KernelBench* bench, const std::vector<Case>& cases,
             void (*measure)(KernelBench*, const Case&)) {
  for (const Case& c : cases) measure(bench, c);
}

void MeasureComputing(KernelBench* bench, const KernelCases& cases) {
  ForEach(bench, cases.linear, LinearBoth);
  ForEach(bench, cases.attentions, AttentionBoth);
}

void MeasureMoving(KernelBench* bench, const KernelCases& cases) {
  ForEach(bench, cases.maps, MapBoth);
  ForEach(bench, cases.dropouts, Dropout);
  ForEach(bench, cases.sums, Sum);
  ForEach(bench, cases.batch_norms, BatchNormAll);
  ForEach(bench, cases.layer_norms, LayerNormBoth);
  ForEach(bench, cases.embeddings, EmbeddingBoth);
  ForEach(bench, cases.cross_entropies, CrossEntropy);
  ForEach(bench, cases.squared_errors, SquaredError);
}

// These are floats in every precision.
void MeasureVectors(KernelBench* bench, const KernelCases& cases) {
  ForEach(bench, cases.vector_adds, VectorAdd);
  ForEach(bench, cases.vector_squares, VectorSquares);
}

// Side at which the operands of the large product have four times `mib` MiB.
int64_t ProductSide(int64_t mib) {
  int64_t side = 1024;
  while (4 * side * side <= mib << 20) side *= 2;
  return side;
}

KernelBench::Options InMemory(const Options& options, std::string suffix) {
  return {.json = options.json,
          .tiny = options.tiny,
          .product_side = ProductSide(options.mib),
          .least_ratio = 0.8,
          .suffix = std::move(suffix)};
}

void NoteInMemory(const Options& options, const KernelBench& bench,
                  Report* report) {
  report->Note(absl::StrCat(
      "arrays of ", options.mib,
      " MiB, of losses and squares four times that; ",
      bench.shortfall().empty()
          ? "all that moves memory reaches 0.8 of a copy"
          : absl::StrCat("below 0.8 of a copy: ", bench.shortfall())));
}

absl::Status RunCpu(const Options& options, Report* report) {
  kernels::CpuOptions cpu;
  if (options.avx512) {
    cpu.instruction_set = kernels::InstructionSet::kAvx512;
  }
  SLUICE_ASSIGN_OR_RETURN(const auto device, kernels::MakeCpuDevice(cpu));
  device->EnterThread();
  report->Note(device->Description());
  const bool in_cache = options.mib == 0;
  // Copies one half of the second-level cache to the other.
  const KernelBench::Options cache = {
      .json = options.json, .tiny = options.tiny, .copy_size = 1 << 16};
  KernelBench bench(device.get(), in_cache ? cache : InMemory(options, ""),
                    report);
  const KernelCases cases =
      in_cache ? CasesInCache() : CasesInMemory(options.mib);
  MeasureComputing(&bench, cases);
  MeasureMoving(&bench, cases);
  MeasureVectors(&bench, cases);
  if (!in_cache) NoteInMemory(options, bench, report);
  return absl::OkStatus();
}

absl::Status RunCuda(const Options& options, Report* report) {
  const KernelCases cases = CasesInMemory(options.mib);
  for (const Precision precision :
       {Precision::kFp32, Precision::kTf32, Precision::kBf16}) {
    SLUICE_ASSIGN_OR_RETURN(const auto device,
                            kernels::MakeCudaDevice({options.gpu, precision}));
    device->EnterThread();
    report->Note(device->Description());
    KernelBench bench(device.get(),
                      InMemory(options, absl::StrCat(", ", NameOf(precision))),
                      report);
    MeasureComputing(&bench, cases);
    // Operations that move memory run in FP32.
    if (precision == Precision::kTf32) continue;
    // Arrays of the same MiB have more numbers if these are smaller.
    MeasureMoving(&bench, CasesInMemory(options.mib * int64_t{sizeof(float)} /
                                        device->activation_bytes()));
    if (precision == Precision::kFp32) MeasureVectors(&bench, cases);
    NoteInMemory(options, bench, report);
  }
  return absl::OkStatus();
}

// Returns the process's exit status.
int Run(Options options) {
  Report report("kernels", "How much of the machine does each operation use?");
  const bool gpu = options.device == "cuda";
  if (gpu && options.mib == 0) options.mib = 64;
  const absl::Status status =
      gpu ? RunCuda(options, &report) : RunCpu(options, &report);
  const bool skipped = absl::IsNotFound(status);
  if (!status.ok()) {
    report.Note(
        absl::StrCat(skipped ? "SKIPPED: " : "FAILED: ", status.message()));
  }
  report.Print(options.json);
  return status.ok() || skipped ? 0 : 1;
}

}  // namespace
}  // namespace sluice::bench

int main(int argc, char** argv) {
  CLI::App app("Operations of the CPU device, on one thread, or of a GPU");
  sluice::bench::Options options;
  app.add_option("--device", options.device)
      ->check(CLI::IsMember({"cpu", "cuda"}));
  app.add_option("--gpu", options.gpu, "Its number");
  app.add_option("--mib", options.mib,
                 "Arrays of so many MiB beside a copy of as many; default: 64 "
                 "on a GPU, on the CPU small ones beside a copy in cache")
      ->check(CLI::Range(1, 512));
  app.add_flag("--avx512", options.avx512, "Allow AVX-512 instructions");
  app.add_flag("--json", options.json, "Print the results as JSON");
  app.add_flag("--tiny", options.tiny, "Few calls, to see that it works");
  CLI11_PARSE(app, argc, argv);
  return sluice::bench::Run(options);
}
