#ifndef SLUICE_WORKER_EXCHANGE_VECTOR_PATH_H_
#define SLUICE_WORKER_EXCHANGE_VECTOR_PATH_H_

#include <grpcpp/generic/generic_stub.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "common/parameter_layout.h"
#include "common/wire/wire_format.h"
#include "worker/exchange/completion_loop.h"
#include "worker/exchange/floats_on_the_way.h"
#include "worker/exchange/shared_shard.h"

namespace sluice {

// How slices travel between a process and all shards; what is pointed to must
// outlive whoever has it.
struct VectorPath {
  const ParameterLayout* layout = nullptr;
  int64_t chunk_floats = 0;
  const WireFormat* format = nullptr;
  FloatType type = FloatType::kFp32;
  const std::vector<std::unique_ptr<grpc::GenericStub>>* stubs = nullptr;
  // Of each shard; nullptr: it shares no memory.
  const std::vector<std::unique_ptr<SharedShard>>* shared = nullptr;
  CompletionLoop* loop = nullptr;
  FloatsOnTheWay* on_the_way = nullptr;  // Those pushed from where they lie.
};

}  // namespace sluice

#endif  // SLUICE_WORKER_EXCHANGE_VECTOR_PATH_H_
