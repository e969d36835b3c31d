// Recordings are CUDA graphs.
#include <type_traits>
#include <utility>

#include "common/status_macros.h"
#include "kernels/cuda/libraries/cuda_libraries.h"

namespace sluice::kernels::cuda {
namespace {

using Graph = std::unique_ptr<std::remove_pointer_t<cudaGraph_t>,
                              FreeWith<cudaGraphDestroy>>;
// One that still runs is freed behind its end.
using Executable = std::unique_ptr<std::remove_pointer_t<cudaGraphExec_t>,
                                   FreeWith<cudaGraphExecDestroy>>;

class GraphRecording : public Recording {
 public:
  GraphRecording(cudaStream_t stream, Executable executable)
      : stream_(stream), executable_(std::move(executable)) {}
  absl::Status Run() override {
    return CudaStatus(cudaGraphLaunch(executable_.get(), stream_),
                      "cudaGraphLaunch");
  }

 private:
  const cudaStream_t stream_;
  const Executable executable_;
};

absl::StatusOr<Graph> Capture(cudaStream_t stream,
                              absl::FunctionRef<absl::Status()> calls) {
  // What a capture forbids is forbidden to this thread, not to others.
  SLUICE_RETURN_IF_ERROR(CudaStatus(
      cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal),
      "cudaStreamBeginCapture"));
  const absl::Status called = calls();
  // In any case: the stream executes nothing before it ends.
  cudaGraph_t made = nullptr;
  const cudaError_t ended = cudaStreamEndCapture(stream, &made);
  Graph graph(made);
  SLUICE_RETURN_IF_ERROR(called);
  SLUICE_RETURN_IF_ERROR(CudaStatus(ended, "cudaStreamEndCapture"));
  return graph;
}

// Ready to be launched: what memory that takes has been found.
absl::StatusOr<Executable> Instantiate(const Graph& graph,
                                       cudaStream_t stream) {
  cudaGraphExec_t made = nullptr;
  SLUICE_RETURN_IF_ERROR(
      CudaStatus(cudaGraphInstantiateWithFlags(&made, graph.get(), 0),
                 "cudaGraphInstantiateWithFlags"));
  Executable executable(made);
  SLUICE_RETURN_IF_ERROR(
      CudaStatus(cudaGraphUpload(made, stream), "cudaGraphUpload"));
  return executable;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Recording>> RecordGraph(
    cudaStream_t stream, absl::FunctionRef<absl::Status()> calls) {
  auto graph = Capture(stream, calls);
  auto executable = graph.ok() ? Instantiate(*graph, stream) : graph.status();
  if (!executable.ok()) {
    cudaGetLastError();  // It is reported here; later calls are well.
    return executable.status();
  }
  return std::make_unique<GraphRecording>(stream, *std::move(executable));
}

}  // namespace sluice::kernels::cuda
