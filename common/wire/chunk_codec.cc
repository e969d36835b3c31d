#include "common/wire/chunk_codec.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/wire_format_lite.h>

#include <algorithm>
#include <deque>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/key_proto.h"
#include "proto/exchange.pb.h"

// A chunk is about twenty bytes of header fields and then `data`, the last
// field. Protobuf writes and reads the header; only the data is kept away from
// it, because protobuf would copy it. A PullChunk of version 3 with four floats
// in FP32 at offset 0 is two slices:
//
//   08 03 19 <8 bytes> 20 01 7a 10   version, checksum, type; tag and length of
//                                    the data (the offset is 0 and left out)
//   <16 bytes>                       the data, where it lies in memory
//
// A received message may be split into slices anywhere and may have its fields
// in any order. TakeApart finds the data without copying it and leaves the
// other bytes to protobuf's parser, which accepts or refuses them.
namespace sluice {
namespace {

namespace io = google::protobuf::io;
using google::protobuf::internal::WireFormatLite;

constexpr int kDataField = proto::PullChunk::kDataFieldNumber;
static_assert(kDataField == int{proto::PushChunk::kDataFieldNumber});
constexpr uint32_t kDataTag = WireFormatLite::MakeTag(
    kDataField, WireFormatLite::WIRETYPE_LENGTH_DELIMITED);

void CallReleased(void* user) {
  auto* released = static_cast<std::function<void()>*>(user);
  (*released)();
  delete released;
}

// Encodes `header`, which has no data, followed by `data`.
grpc::ByteBuffer Joined(const google::protobuf::MessageLite& header,
                        grpc::Slice data) {
  std::string fields = header.SerializeAsString();
  if (data.size() > 0) {
    io::StringOutputStream appended(&fields);
    io::CodedOutputStream out(&appended);
    out.WriteVarint32(kDataTag);
    out.WriteVarint64(data.size());
  }
  const grpc::Slice slices[] = {grpc::Slice(fields), std::move(data)};
  return grpc::ByteBuffer(slices, 2);
}

// Protobuf's parser accepts no tag and no length of more bytes than this, but
// CodedInputStream does.
constexpr int kLongestVarint32 = 5;

// Reads a field's length and skips that many bytes. `*pieces` becomes the
// places where they lie. False if the message ends before them.
bool ReadPieces(io::CodedInputStream* in,
                std::vector<absl::Span<const uint8_t>>* pieces) {
  pieces->clear();
  const int begin = in->CurrentPosition();
  int left;
  if (!in->ReadVarintSizeAsInt(&left) ||
      in->CurrentPosition() - begin > kLongestVarint32) {
    return false;
  }
  while (left > 0) {
    const void* start;
    int size;
    if (!in->GetDirectBufferPointer(&start, &size)) return false;
    size = std::min(size, left);
    pieces->emplace_back(static_cast<const uint8_t*>(start), size);
    if (!in->Skip(size)) return false;
    left -= size;
  }
  return true;
}

// Appends the bytes from `begin` to `end` of the joined `slices`.
void Append(const std::vector<grpc::Slice>& slices, int begin, int end,
            std::string* to) {
  for (const grpc::Slice& slice : slices) {
    const int size = static_cast<int>(slice.size());
    const int first = std::max(begin, 0);
    const int last = std::min(end, size);
    if (first < last) to->append(slice.begin() + first, slice.begin() + last);
    begin -= size;
    end -= size;
  }
}

// Finds the data in the message in `slices`, and copies all other fields to
// `*others` for protobuf to parse. Like protobuf, keeps the last value of a
// repeated field. False if the message is malformed.
bool TakeApart(const std::vector<grpc::Slice>& slices, std::string* others,
               std::vector<absl::Span<const uint8_t>>* data) {
  std::deque<io::ArrayInputStream> arrays;
  std::vector<io::ZeroCopyInputStream*> streams;
  for (const grpc::Slice& slice : slices) {
    streams.push_back(
        &arrays.emplace_back(slice.begin(), static_cast<int>(slice.size())));
  }
  io::ConcatenatingInputStream joined(streams.data(),
                                      static_cast<int>(streams.size()));
  io::CodedInputStream in(&joined);
  int copied = 0;  // Bytes that were copied to `*others` or belong to the data.
  int begin = 0;   // Of the current field.
  while (const uint32_t tag = in.ReadTag()) {
    if (tag != kDataTag) {
      if (!WireFormatLite::SkipField(&in, tag)) return false;
    } else {
      if (in.CurrentPosition() - begin > kLongestVarint32) return false;
      Append(slices, copied, begin, others);
      if (!ReadPieces(&in, data)) return false;
      copied = in.CurrentPosition();
    }
    begin = in.CurrentPosition();
  }
  Append(slices, copied, begin, others);
  return in.ConsumedEntireMessage();
}

FloatType TypeOf(int value) { return static_cast<FloatType>(value); }

PullChunkHeader HeaderOf(const proto::PullChunk& chunk) {
  PullChunkHeader header = {Version(chunk.version()), chunk.offset(),
                            TypeOf(chunk.type())};
  for (const proto::Slot& slot : chunk.slots()) {
    header.slots.push_back({slot.number(), slot.writes()});
  }
  return header;
}

PushChunkHeader HeaderOf(const proto::PushChunk& chunk) {
  PushChunkHeader header = {KeyFromProto(chunk.key()), chunk.grant(),
                            chunk.offset(), TypeOf(chunk.type())};
  if (chunk.has_shared()) {
    const proto::SharedFloats& shared = chunk.shared();
    header.shared = {shared.link(), shared.memory(), shared.at(),
                     shared.count()};
  }
  header.ready = chunk.ready();
  return header;
}

// `Chunk` is the message of proto/exchange.proto for `Header`.
template <typename Chunk, typename Header>
absl::StatusOr<ReceivedChunk<Header>> Decode(const grpc::ByteBuffer& buffer) {
  ReceivedChunk<Header> received;
  std::string others;
  std::vector<absl::Span<const uint8_t>> data;
  Chunk chunk;
  if (!buffer.Dump(&received.slices).ok() ||
      !TakeApart(received.slices, &others, &data) ||
      !chunk.ParseFromString(others)) {
    return absl::InvalidArgumentError(absl::StrCat(
        Chunk::descriptor()->name(), " of ",
        buffer.Valid() ? buffer.Length() : 0, " bytes is malformed"));
  }
  received.header = HeaderOf(chunk);
  received.payload = Payload(std::move(data), chunk.checksum());
  return received;
}

}  // namespace

ChunkData InPlace(absl::Span<const float> floats, uint64_t checksum,
                  std::function<void()> released) {
  // gRPC only reads through this pointer, although its type is not const.
  void* const start = const_cast<float*>(floats.data());
  const size_t bytes = floats.size() * sizeof(float);
  if (!released) {
    return {grpc::Slice(start, bytes, grpc::Slice::STATIC_SLICE), checksum};
  }
  return {grpc::Slice(start, bytes, &CallReleased,
                      new std::function<void()>(std::move(released))),
          checksum};
}

ChunkData CopyOf(const WireFormat& format, FloatType type, ParameterRange range,
                 absl::Span<const float> floats) {
  ChunkData data;
  data.bytes = grpc::Slice(format.Bytes(type, range));
  // No other thread knows the slice yet, so it may be written to.
  data.checksum = format.Encode(type, range, floats,
                                const_cast<uint8_t*>(data.bytes.begin()));
  return data;
}

grpc::ByteBuffer EncodePullChunk(const PullChunkHeader& header,
                                 ChunkData data) {
  proto::PullChunk chunk;
  chunk.set_version(header.version.value());
  chunk.set_offset(header.offset);
  chunk.set_checksum(data.checksum);
  chunk.set_type(static_cast<proto::FloatType>(header.type));
  for (const SlotState& state : header.slots) {
    proto::Slot* const slot = chunk.add_slots();
    slot->set_number(state.slot);
    slot->set_writes(state.writes);
  }
  return Joined(chunk, std::move(data.bytes));
}

grpc::ByteBuffer EncodePushChunk(const PushChunkHeader& header,
                                 ChunkData data) {
  proto::PushChunk chunk;
  *chunk.mutable_key() = KeyToProto(header.key);
  chunk.set_grant(header.grant);
  chunk.set_offset(header.offset);
  chunk.set_checksum(data.checksum);
  chunk.set_type(static_cast<proto::FloatType>(header.type));
  if (header.shared.has_value()) {
    proto::SharedFloats* const shared = chunk.mutable_shared();
    shared->set_link(header.shared->link);
    shared->set_memory(header.shared->memory);
    shared->set_at(header.shared->at);
    shared->set_count(header.shared->count);
  }
  chunk.set_ready(header.ready);
  return Joined(chunk, std::move(data.bytes));
}

absl::StatusOr<ReceivedChunk<PullChunkHeader>> DecodePullChunk(
    const grpc::ByteBuffer& buffer) {
  return Decode<proto::PullChunk, PullChunkHeader>(buffer);
}

absl::StatusOr<ReceivedChunk<PushChunkHeader>> DecodePushChunk(
    const grpc::ByteBuffer& buffer) {
  return Decode<proto::PushChunk, PushChunkHeader>(buffer);
}

grpc::ByteBuffer EncodeMessage(const google::protobuf::MessageLite& message) {
  const grpc::Slice slice(message.SerializeAsString());
  return grpc::ByteBuffer(&slice, 1);
}

absl::Status DecodeMessage(const grpc::ByteBuffer& buffer,
                           google::protobuf::MessageLite* message) {
  grpc::Slice slice;
  if (buffer.Valid() && buffer.DumpToSingleSlice(&slice).ok() &&
      message->ParseFromArray(slice.begin(), static_cast<int>(slice.size()))) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat(message->GetTypeName(), " is malformed"));
}

}  // namespace sluice
