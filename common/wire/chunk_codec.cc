#include "common/wire/chunk_codec.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/wire/wire_reader.h"

namespace sluice {
namespace {

constexpr uint32_t kDataField = 15;

constexpr uint32_t VarintTag(uint32_t field) {
  return WireReader::Tag(field, WireReader::kVarint);
}
constexpr uint32_t Fixed64Tag(uint32_t field) {
  return WireReader::Tag(field, WireReader::kFixed64);
}
constexpr uint32_t LengthTag(uint32_t field) {
  return WireReader::Tag(field, WireReader::kLengthDelimited);
}

// ---- Writing. Fields that are 0 are left out, as proto3 does. ----

void PutVarint(uint64_t value, std::string* out) {
  for (; value >= 0x80; value >>= 7) {
    out->push_back(static_cast<char>(value | 0x80));
  }
  out->push_back(static_cast<char>(value));
}

void PutVarintField(uint32_t field, int64_t value, std::string* out) {
  if (value == 0) return;
  PutVarint(VarintTag(field), out);
  PutVarint(static_cast<uint64_t>(value), out);
}

void PutFixed64Field(uint32_t field, uint64_t value, std::string* out) {
  if (value == 0) return;
  PutVarint(Fixed64Tag(field), out);
  for (int i = 0; i < 8; ++i) {
    out->push_back(static_cast<char>(value >> (8 * i)));
  }
}

void PutKeyField(uint32_t field, const GradientKey& key, std::string* out) {
  std::string body;
  PutVarintField(1, key.generation.value(), &body);
  PutVarintField(2, key.worker.value(), &body);
  PutVarintField(3, key.incarnation.value(), &body);
  PutVarintField(4, key.sequence.value(), &body);
  PutVarint(LengthTag(field), out);
  PutVarint(body.size(), out);
  out->append(body);
}

void CallReleased(void* user) {
  auto* released = static_cast<std::function<void()>*>(user);
  (*released)();
  delete released;
}

grpc::ByteBuffer Joined(std::string header, grpc::Slice data) {
  if (data.size() > 0) {
    PutVarint(LengthTag(kDataField), &header);
    PutVarint(data.size(), &header);
  }
  const grpc::Slice slices[] = {grpc::Slice(header), std::move(data)};
  return grpc::ByteBuffer(slices, 2);
}

// ---- Reading. The last of a repeated field counts, as in protobuf. ----

bool ReadInt(WireReader* reader, int64_t* value) {
  uint64_t bits;
  if (!reader->ReadVarint(&bits)) return false;
  *value = static_cast<int64_t>(bits);
  return true;
}

template <typename IdType>
bool ReadId(WireReader* reader, IdType* id) {
  int64_t value;
  if (!ReadInt(reader, &value)) return false;
  *id = IdType(value);
  return true;
}

bool ReadType(WireReader* reader, FloatType* type) {
  int64_t value;
  if (!ReadInt(reader, &value)) return false;
  // As protobuf reads an enumeration.
  *type = static_cast<FloatType>(static_cast<int32_t>(value));
  return true;
}

bool ReadKeyField(WireReader* reader, uint32_t tag, GradientKey* key) {
  switch (tag) {
    case VarintTag(1):
      return ReadId(reader, &key->generation);
    case VarintTag(2):
      return ReadId(reader, &key->worker);
    case VarintTag(3):
      return ReadId(reader, &key->incarnation);
    case VarintTag(4):
      return ReadId(reader, &key->sequence);
    default:
      return reader->SkipField(tag);
  }
}

bool ReadKey(WireReader* reader, GradientKey* key) {
  size_t outside;
  if (!reader->EnterMessage(&outside)) return false;
  while (reader->remaining() > 0) {
    uint32_t tag;
    if (!reader->ReadTag(&tag) || !ReadKeyField(reader, tag, key)) return false;
  }
  reader->LeaveMessage(outside);
  return true;
}

struct RawPayload {
  std::vector<Bytes> parts;
  uint64_t checksum = 0;
};

bool ReadField(WireReader* reader, uint32_t tag, PullChunkHeader* header,
               RawPayload* payload) {
  switch (tag) {
    case VarintTag(1):
      return ReadId(reader, &header->version);
    case VarintTag(2):
      return ReadInt(reader, &header->offset);
    case Fixed64Tag(3):
      return reader->ReadFixed64(&payload->checksum);
    case VarintTag(4):
      return ReadType(reader, &header->type);
    case LengthTag(kDataField):
      return reader->ReadBytes(&payload->parts);
    default:
      return reader->SkipField(tag);
  }
}

bool ReadField(WireReader* reader, uint32_t tag, PushChunkHeader* header,
               RawPayload* payload) {
  switch (tag) {
    case LengthTag(1):
      return ReadKey(reader, &header->key);
    case Fixed64Tag(2):
      return reader->ReadFixed64(&header->grant);
    case VarintTag(3):
      return ReadInt(reader, &header->offset);
    case Fixed64Tag(4):
      return reader->ReadFixed64(&payload->checksum);
    case VarintTag(5):
      return ReadType(reader, &header->type);
    case LengthTag(kDataField):
      return reader->ReadBytes(&payload->parts);
    default:
      return reader->SkipField(tag);
  }
}

template <typename Header>
absl::StatusOr<ReceivedChunk<Header>> Decode(const grpc::ByteBuffer& buffer,
                                             const char* name) {
  ReceivedChunk<Header> chunk;
  if (!buffer.Dump(&chunk.slices).ok()) {
    return absl::InvalidArgumentError(absl::StrCat(name, " cannot be read"));
  }
  std::vector<Bytes> bytes;
  for (const grpc::Slice& slice : chunk.slices) {
    bytes.emplace_back(slice.begin(), slice.size());
  }
  WireReader reader(bytes);
  RawPayload payload;
  while (reader.remaining() > 0) {
    uint32_t tag;
    if (!reader.ReadTag(&tag) ||
        !ReadField(&reader, tag, &chunk.header, &payload)) {
      return absl::InvalidArgumentError(
          absl::StrCat(name, " of ", buffer.Length(), " bytes is malformed"));
    }
  }
  chunk.payload = Payload(std::move(payload.parts), payload.checksum);
  return chunk;
}

}  // namespace

ChunkData InPlace(absl::Span<const float> floats,
                  std::function<void()> released) {
  // gRPC only reads it, whatever the constructor's type says.
  void* const start = const_cast<float*>(floats.data());
  const size_t bytes = floats.size() * sizeof(float);
  const uint64_t checksum = ChunkChecksum(floats);
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
  // Nobody else knows the slice yet, so it may be written to.
  data.checksum = format.Encode(type, range, floats,
                                const_cast<uint8_t*>(data.bytes.begin()));
  return data;
}

grpc::ByteBuffer EncodePullChunk(const PullChunkHeader& header,
                                 ChunkData data) {
  std::string fields;
  PutVarintField(1, header.version.value(), &fields);
  PutVarintField(2, header.offset, &fields);
  PutFixed64Field(3, data.checksum, &fields);
  PutVarintField(4, static_cast<int64_t>(header.type), &fields);
  return Joined(std::move(fields), std::move(data.bytes));
}

grpc::ByteBuffer EncodePushChunk(const PushChunkHeader& header,
                                 ChunkData data) {
  std::string fields;
  PutKeyField(1, header.key, &fields);
  PutFixed64Field(2, header.grant, &fields);
  PutVarintField(3, header.offset, &fields);
  PutFixed64Field(4, data.checksum, &fields);
  PutVarintField(5, static_cast<int64_t>(header.type), &fields);
  return Joined(std::move(fields), std::move(data.bytes));
}

absl::StatusOr<ReceivedChunk<PullChunkHeader>> DecodePullChunk(
    const grpc::ByteBuffer& buffer) {
  return Decode<PullChunkHeader>(buffer, "PullChunk");
}

absl::StatusOr<ReceivedChunk<PushChunkHeader>> DecodePushChunk(
    const grpc::ByteBuffer& buffer) {
  return Decode<PushChunkHeader>(buffer, "PushChunk");
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
