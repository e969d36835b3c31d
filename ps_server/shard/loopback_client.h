#ifndef SLUICE_PS_SERVER_SHARD_LOOPBACK_CLIENT_H_
#define SLUICE_PS_SERVER_SHARD_LOOPBACK_CLIENT_H_

#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <cstring>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/grant.h"
#include "common/ids.h"
#include "common/rpc/deadline.h"
#include "common/rpc/status_conversion.h"
#include "gtest/gtest.h"
#include "proto/exchange.grpc.pb.h"
#include "ps_server/shard/chunk_grid.h"
#include "ps_server/shard/shard_testing.h"

// Clients of a shard, of generated code.
namespace sluice::testing {

// Nothing here takes longer than milliseconds, but for a loaded machine.
inline constexpr absl::Duration kPatience = absl::Seconds(20);

inline gpr_timespec After(absl::Duration time) { return FromNow(time); }

inline proto::PushChunk ChunkOf(const GradientKey& key, int64_t offset,
                                const std::vector<float>& floats) {
  proto::PushChunk chunk;
  chunk.mutable_key()->set_generation(key.generation.value());
  chunk.mutable_key()->set_worker(key.worker.value());
  chunk.mutable_key()->set_incarnation(key.incarnation.value());
  chunk.mutable_key()->set_sequence(key.sequence.value());
  chunk.set_grant(GrantKey(kSecret).GrantFor(key));
  chunk.set_offset(offset);
  chunk.set_checksum(ChunkChecksum(floats));
  chunk.set_type(proto::FP32);
  chunk.set_data(floats.data(), floats.size() * sizeof(float));
  return chunk;
}

// A whole gradient of `value`, cut as the grid says.
inline std::vector<proto::PushChunk> Gradient(const GradientKey& key,
                                              const ChunkGrid& grid,
                                              float value) {
  std::vector<proto::PushChunk> chunks;
  for (int i = 0; i < grid.count(); ++i) {
    chunks.push_back(
        ChunkOf(key, grid.begin(i), std::vector<float>(grid.size(i), value)));
  }
  return chunks;
}

// `staged`: what the reply says, if there is one.
inline absl::Status Push(proto::Exchange::Stub* client,
                         const std::vector<proto::PushChunk>& chunks,
                         int64_t* staged = nullptr) {
  grpc::ClientContext context;
  context.set_deadline(After(kPatience));
  proto::PushReply reply;
  const auto writer = client->Push(&context, &reply);
  for (const proto::PushChunk& chunk : chunks) {
    if (!writer->Write(chunk)) break;  // Finish says why.
  }
  writer->WritesDone();
  const absl::Status status = FromGrpcStatus(writer->Finish());
  if (staged != nullptr) *staged = reply.staged();
  return status;
}

struct Pulled {
  absl::Status status;
  int64_t version = -1;
  std::vector<float> weights;
};

inline Pulled Pull(proto::Exchange::Stub* client,
                   const proto::PullRequest& request,
                   absl::Duration deadline = kPatience) {
  grpc::ClientContext context;
  context.set_deadline(After(deadline));
  const auto reader = client->Pull(&context, request);
  Pulled pulled;
  proto::PullChunk chunk;
  while (reader->Read(&chunk)) {
    EXPECT_EQ(chunk.offset(),
              request.offset() + static_cast<int64_t>(pulled.weights.size()));
    EXPECT_TRUE(pulled.version < 0 || pulled.version == chunk.version());
    pulled.version = chunk.version();
    std::vector<float> floats(chunk.data().size() / sizeof(float));
    std::memcpy(floats.data(), chunk.data().data(), chunk.data().size());
    EXPECT_EQ(chunk.checksum(), ChunkChecksum(floats));
    pulled.weights.insert(pulled.weights.end(), floats.begin(), floats.end());
  }
  pulled.status = FromGrpcStatus(reader->Finish());
  return pulled;
}

inline proto::PullRequest PullOf(int64_t version, bool exact,
                                 int64_t offset = 0, int64_t generation = 1) {
  proto::PullRequest request;
  request.set_generation(generation);
  request.set_version(version);
  request.set_exact(exact);
  request.set_type(proto::FP32);
  request.set_offset(offset);
  return request;
}

inline Pulled Pull(proto::Exchange::Stub* client, int64_t version, bool exact,
                   absl::Duration deadline = kPatience,
                   int64_t generation = 1) {
  return Pull(client, PullOf(version, exact, /*offset=*/0, generation),
              deadline);
}

}  // namespace sluice::testing

#endif  // SLUICE_PS_SERVER_SHARD_LOOPBACK_CLIENT_H_
