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

// PullChunk and PushChunk of proto/exchange.proto to and from gRPC's buffers.
// Their data is sent from where it lies and read where it arrived, never copied
// through a protobuf field. The bytes are those that protobuf writes, and what
// protobuf refuses is refused.
namespace sluice {

// A chunk as it came: neither type, offset nor size is compared with anything.
// `payload` points into `slices`, so a chunk can be moved, but not copied.
template <typename Header>
struct ReceivedChunk {
  ReceivedChunk() = default;
  ReceivedChunk(ReceivedChunk&&) = default;
  ReceivedChunk& operator=(ReceivedChunk&&) = default;

  Header header;
  Payload payload;
  std::vector<grpc::Slice> slices;  // Keeps the bytes.
};

// What a chunk to be sent carries.
struct ChunkData {
  grpc::Slice bytes;
  uint64_t checksum = 0;
};
// `floats` in place, as FP32 (a pass over them, for the checksum). gRPC reads
// them until it calls `released`, once, on any thread, possibly after the call
// has ended; until then they must neither change nor go away. `released` may be
// empty (where the buffer is known to be gone before the floats are), and so
// may `floats`.
ChunkData InPlace(absl::Span<const float> floats,
                  std::function<void()> released);
// A copy of `floats`, those of `range`, as WireFormat::Encode writes it.
ChunkData CopyOf(const WireFormat& format, FloatType type, ParameterRange range,
                 absl::Span<const float> floats);

// The message. REQUIRES: `data` is of the header's type.
grpc::ByteBuffer EncodePullChunk(const PullChunkHeader& header, ChunkData data);
grpc::ByteBuffer EncodePushChunk(const PushChunkHeader& header, ChunkData data);

// kInvalidArgument: not such a message. The payload's checksum is compared by
// WireFormat::Decode. `buffer` need not be kept.
absl::StatusOr<ReceivedChunk<PullChunkHeader>> DecodePullChunk(
    const grpc::ByteBuffer& buffer);
absl::StatusOr<ReceivedChunk<PushChunkHeader>> DecodePushChunk(
    const grpc::ByteBuffer& buffer);

// Any other message of these services, through protobuf.
grpc::ByteBuffer EncodeMessage(const google::protobuf::MessageLite& message);
// kInvalidArgument: not such a message.
absl::Status DecodeMessage(const grpc::ByteBuffer& buffer,
                           google::protobuf::MessageLite* message);

}  // namespace sluice

#endif  // SLUICE_COMMON_WIRE_CHUNK_CODEC_H_
