#ifndef SLUICE_COMMON_WIRE_CHUNK_CODEC_H_
#define SLUICE_COMMON_WIRE_CHUNK_CODEC_H_

#include <google/protobuf/message_lite.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/slice.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/wire/chunk_header.h"
#include "common/wire/payload.h"
#include "common/wire/wire_format.h"

// Converts PullChunk and PushChunk of proto/exchange.proto to and from gRPC's
// buffers. Their data is sent from its place and read where it arrived, and
// never copied through a protobuf field. The bytes are those that protobuf
// writes, and the decoder refuses what protobuf refuses.
namespace sluice {

// A received chunk. Its type, offset and size have not been checked. `payload`
// points into `slices`, so a chunk can be moved but not copied.
template <typename Header>
struct ReceivedChunk {
  ReceivedChunk() = default;
  ReceivedChunk(ReceivedChunk&&) = default;
  ReceivedChunk& operator=(ReceivedChunk&&) = default;

  Header header;
  Payload payload;
  std::vector<grpc::Slice> slices;  // Owns the payload's bytes.
};

// The payload of a chunk to be sent.
struct ChunkData {
  grpc::Slice bytes;
  uint64_t checksum = 0;
};
// Sends `floats` in place, as FP32, with their `checksum` (ChunkChecksum).
// gRPC reads them until it calls `released` once, on any thread, possibly after
// the call has ended. Until then they must neither change nor go away.
// `released` may be empty if the buffer is known to be gone before the floats
// are. `floats` may be empty.
ChunkData InPlace(absl::Span<const float> floats, uint64_t checksum,
                  std::function<void()> released);
// A copy of `floats`, which are those of `range`, in WireFormat's encoding.
ChunkData CopyOf(const WireFormat& format, FloatType type, ParameterRange range,
                 absl::Span<const float> floats);

// Encodes a message. REQUIRES: `data` is of the header's type, or the header
// says where the floats are and there is none.
grpc::ByteBuffer EncodePullChunk(const PullChunkHeader& header, ChunkData data);
grpc::ByteBuffer EncodePushChunk(const PushChunkHeader& header, ChunkData data);

// kInvalidArgument: not such a message. The checksum is verified later, by
// WireFormat::Decode. `buffer` need not be kept.
absl::StatusOr<ReceivedChunk<PullChunkHeader>> DecodePullChunk(
    const grpc::ByteBuffer& buffer);
absl::StatusOr<ReceivedChunk<PushChunkHeader>> DecodePushChunk(
    const grpc::ByteBuffer& buffer);

// For the other messages of these services, through protobuf.
grpc::ByteBuffer EncodeMessage(const google::protobuf::MessageLite& message);
// kInvalidArgument: not such a message.
absl::Status DecodeMessage(const grpc::ByteBuffer& buffer,
                           google::protobuf::MessageLite* message);

}  // namespace sluice

#endif  // SLUICE_COMMON_WIRE_CHUNK_CODEC_H_
