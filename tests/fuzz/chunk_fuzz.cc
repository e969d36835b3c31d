// Decodes any bytes, split in any way, as a chunk of a pull or a push.
//
// Must hold: the hand-written decoder accepts, refuses and reads exactly what
// protobuf does. An accepted chunk encodes to the bytes that protobuf writes,
// and decodes to the same chunk again. A shard stages it only if type, offset,
// size, grant and values are right.
//
// Input: one byte (bit 0: push or pull; other bits: bytes in each slice, 0: one
// slice), then the message.
// slice), then the message.

#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/grant.h"
#include "common/status_macros.h"
#include "common/wire/chunk_codec.h"
#include "common/wire/wire_format.h"
#include "proto/exchange.pb.h"
#include "ps_server/shard/shard_testing.h"
#include "tests/fuzz/fuzz_input.h"

namespace sluice {
namespace {

grpc::ByteBuffer Split(const std::string& bytes, size_t piece) {
  if (piece == 0) piece = bytes.size() + 1;
  std::vector<grpc::Slice> slices(1);
  for (size_t i = 0; i < bytes.size(); i += piece) {
    slices.emplace_back(bytes.substr(i, piece));
  }
  return grpc::ByteBuffer(slices.data(), slices.size());
}

std::string Joined(const grpc::ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  SLUICE_CHECK(buffer.Dump(&slices).ok());
  std::string bytes;
  for (const grpc::Slice& slice : slices) {
    bytes.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  return bytes;
}

std::string DataOf(const Payload& payload) {
  std::string data;
  for (const auto& part : payload.parts()) {
    data.append(reinterpret_cast<const char*>(part.data()), part.size());
  }
  return data;
}

// The two kinds of chunk, with the same member names.
struct Pull {
  using Header = PullChunkHeader;
  using Message = proto::PullChunk;
  static constexpr auto kDecode = &DecodePullChunk;
  static grpc::ByteBuffer Encode(const Header& header,
                                 absl::Span<const float> data) {
    return EncodePullChunk(header, InPlace(data, ChunkChecksum(data), nullptr));
  }
  static Header HeaderOf(const Message& message) {
    Header header = {Version(message.version()), message.offset(),
                     static_cast<FloatType>(message.type())};
    for (const proto::Slot& slot : message.slots()) {
      header.slots.push_back({slot.number(), slot.writes()});
    }
    return header;
  }
};
struct Push {
  using Header = PushChunkHeader;
  using Message = proto::PushChunk;
  static constexpr auto kDecode = &DecodePushChunk;
  static grpc::ByteBuffer Encode(const Header& header,
                                 absl::Span<const float> data) {
    const ParameterRange range = {0, static_cast<int64_t>(data.size())};
    return EncodePushChunk(
        header, CopyOf(WireFormat({}), FloatType::kFp32, range, data));
  }
  static Header HeaderOf(const Message& message) {
    const proto::Key& key = message.key();
    Header header = {{Generation(key.generation()), WorkerId(key.worker()),
                      Incarnation(key.incarnation()), Sequence(key.sequence())},
                     message.grant(),
                     message.offset(),
                     static_cast<FloatType>(message.type())};
    if (message.has_shared()) {
      const proto::SharedFloats& shared = message.shared();
      header.shared = {shared.link(), shared.memory(), shared.at(),
                       shared.count()};
    }
    header.ready = message.ready();
    return header;
  }
};

// `message` is the decoded chunk as a protobuf message; `data` are its floats.
template <typename Kind>
void CheckEncodesAgain(typename Kind::Message message,
                       const std::vector<float>& data) {
  const auto header = Kind::HeaderOf(message);
  const std::string once = Joined(Kind::Encode(header, data));
  message.DiscardUnknownFields();
  message.set_checksum(ChunkChecksum(data));
  if constexpr (std::is_same_v<Kind, Push>) {
    message.mutable_key()->DiscardUnknownFields();
  }
  SLUICE_CHECK(once == message.SerializeAsString());
  const auto again = Kind::kDecode(Split(once, 0));
  SLUICE_CHECK(again.ok());
  SLUICE_CHECK(again->header == header);
  std::vector<float> to(data.size());
  SLUICE_CHECK(again->payload.CopyTo(absl::MakeSpan(to)).ok());
  SLUICE_CHECK(Joined(Kind::Encode(again->header, to)) == once);
}

// Offers the chunk to a shard that accepts `type`, first as it is and then with
// the correct grant.
void CheckStaging(const ReceivedChunk<PushChunkHeader>& chunk, FloatType type) {
  ShardOptions options = testing::SmallOptions();
  options.push_type = type;
  Shard shard(options);
  SLUICE_CHECK(shard.Execute({1, testing::FirstRestore()}).ok());
  PushChunkHeader header = chunk.header;
  const std::string grant = GrantKey(testing::kSecret).GrantFor(header.key);
  const auto as_it_came = shard.Stage(header, chunk.payload);
  SLUICE_CHECK(header.grant == grant || !as_it_came.ok());
  header.grant = grant;
  const auto granted = shard.Stage(header, chunk.payload);
  if (!granted.ok()) {
    SLUICE_CHECK(absl::StartsWith(granted.status().message(), "shard 0: "));
    // At most the room that was granted to the key.
    SLUICE_CHECK(shard.staging().held() <= 1);
    SLUICE_CHECK(!shard.staging().Find(header.key).ok());
    return;
  }
  // Chunks of 64, 64 and 22 floats; see shard_testing.h.
  const int64_t floats = header.offset == 128 ? 22 : 64;
  SLUICE_CHECK(header.offset % 64 == 0 && header.offset >= 0 &&
               header.offset <= 128);
  SLUICE_CHECK(header.type == type);
  const ParameterRange range = {header.offset, header.offset + floats};
  const WireFormat format(testing::SmallLayout().statistics());
  SLUICE_CHECK(static_cast<int64_t>(chunk.payload.bytes()) ==
               format.Bytes(type, range));
  std::vector<float> values(floats);
  SLUICE_CHECK(
      format.Decode(type, range, chunk.payload, absl::MakeSpan(values)).ok());
  for (const float value : values) SLUICE_CHECK(std::isfinite(value));
  const int64_t duplicates = shard.staging().duplicate_chunks();
  SLUICE_CHECK(shard.Stage(header, chunk.payload).ok());
  SLUICE_CHECK(shard.staging().duplicate_chunks() == duplicates + 1);
}

template <typename Kind>
void Check(const std::string& bytes, size_t piece) {
  const grpc::ByteBuffer buffer = Split(bytes, piece);
  const auto chunk = Kind::kDecode(buffer);
  typename Kind::Message message;
  SLUICE_CHECK(chunk.ok() == message.ParseFromString(bytes));
  if (!chunk.ok()) {
    SLUICE_CHECK(chunk.status().code() == absl::StatusCode::kInvalidArgument);
    SLUICE_CHECK(absl::StrContains(chunk.status().message(),
                                   absl::StrCat(bytes.size(), " bytes")));
    return;
  }
  SLUICE_CHECK(chunk->header == Kind::HeaderOf(message));
  SLUICE_CHECK(DataOf(chunk->payload) == message.data());
  SLUICE_CHECK(chunk->payload.bytes() == message.data().size());
  std::vector<float> floats(message.data().size() / sizeof(float));
  const absl::Status copied = chunk->payload.CopyTo(absl::MakeSpan(floats));
  if (message.data().size() % sizeof(float) != 0) {
    SLUICE_CHECK(copied.code() == absl::StatusCode::kInvalidArgument);
  } else {
    const bool intact = ChunkChecksum(floats) == message.checksum();
    SLUICE_CHECK(copied.ok() == intact);
    SLUICE_CHECK(intact || copied.code() == absl::StatusCode::kDataLoss);
    CheckEncodesAgain<Kind>(message, floats);
  }
  if constexpr (std::is_same_v<Kind, Push>) {
    for (const FloatType type :
         {FloatType::kFp32, FloatType::kBf16, FloatType::kFp16}) {
      CheckStaging(*chunk, type);
    }
  }
}

}  // namespace
}  // namespace sluice

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  sluice::fuzz::FuzzInput input(data, size);
  const uint8_t how = input.Byte();
  const std::string bytes = input.Rest();
  if (how & 1) {
    sluice::Check<sluice::Push>(bytes, how >> 1);
  } else {
    sluice::Check<sluice::Pull>(bytes, how >> 1);
  }
  return 0;
}
