#include "common/wire/chunk_codec.h"

#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/rpc/channel_options.h"
#include "gtest/gtest.h"
#include "proto/exchange.pb.h"

namespace sluice {
namespace {

std::vector<float> Floats(size_t count) {
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), 0.5f);
  return values;
}

std::string Joined(const grpc::ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  EXPECT_TRUE(buffer.Dump(&slices).ok());
  std::string bytes;
  for (const grpc::Slice& slice : slices) {
    bytes.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  return bytes;
}

// Cuts the bytes into slices of `piece` bytes, as a network might deliver them.
grpc::ByteBuffer Split(const std::string& bytes, size_t piece) {
  std::vector<grpc::Slice> slices;
  for (size_t i = 0; i < bytes.size(); i += piece) {
    slices.emplace_back(bytes.substr(i, piece));
    slices.emplace_back();  // An empty one between them.
  }
  return grpc::ByteBuffer(slices.data(), slices.size());
}

std::string DataOf(const Payload& payload) {
  std::string data;
  for (const auto& part : payload.parts()) {
    data.append(reinterpret_cast<const char*>(part.data()), part.size());
  }
  return data;
}

PushChunkHeader SomePush() {
  return {
      .key = {Generation(1), WorkerId(300), Incarnation(2), Sequence(70000)},
      .grant = "sixteen bytes ok",
      .offset = 262144,
      .type = FloatType::kFp32,
      .ready = "a Ready"};
}

// FP32, without statistics.
grpc::ByteBuffer Encode(const PushChunkHeader& header,
                        absl::Span<const float> data) {
  const ParameterRange range = {0, static_cast<int64_t>(data.size())};
  return EncodePushChunk(header,
                         CopyOf(WireFormat({}), FloatType::kFp32, range, data));
}
grpc::ByteBuffer Encode(const PullChunkHeader& header,
                        absl::Span<const float> data) {
  return EncodePullChunk(header, InPlace(data, ChunkChecksum(data), nullptr));
}

proto::PushChunk AsProto(const PushChunkHeader& h, absl::Span<const float> d) {
  proto::PushChunk m;
  m.mutable_key()->set_generation(h.key.generation.value());
  m.mutable_key()->set_worker(h.key.worker.value());
  m.mutable_key()->set_incarnation(h.key.incarnation.value());
  m.mutable_key()->set_sequence(h.key.sequence.value());
  m.set_grant(h.grant);
  m.set_offset(h.offset);
  m.set_checksum(ChunkChecksum(d));
  m.set_type(static_cast<proto::FloatType>(h.type));
  m.set_ready(h.ready);
  m.set_data(d.data(), d.size() * sizeof(float));
  return m;
}

TEST(ChunkCodecTest, APushChunkIsByteForByteWhatProtobufWrites) {
  for (const size_t count : {0, 1, 31, 1025}) {
    const std::vector<float> data = Floats(count);
    for (const PushChunkHeader& header :
         {SomePush(), PushChunkHeader{},
          PushChunkHeader{{Generation(-1), {}, {}, {}}, "1", -7, {}}}) {
      EXPECT_EQ(Joined(Encode(header, data)),
                AsProto(header, data).SerializeAsString());
    }
  }
}

TEST(ChunkCodecTest, APullChunkIsByteForByteWhatProtobufWrites) {
  const std::vector<float> data = Floats(33);
  proto::PullChunk message;
  message.set_version(1000);
  message.set_offset(16);
  message.set_checksum(ChunkChecksum(data));
  message.set_type(proto::FP32);
  message.set_data(data.data(), data.size() * sizeof(float));
  EXPECT_EQ(Joined(Encode(PullChunkHeader{Version(1000), 16, FloatType::kFp32},
                          data)),
            message.SerializeAsString());
}

TEST(ChunkCodecTest, DecodingGivesWhatProtobufWroteHoweverItIsSplit) {
  const std::vector<float> data = Floats(257);
  const PushChunkHeader header = SomePush();
  const std::string bytes = AsProto(header, data).SerializeAsString();
  for (const size_t piece : {1, 2, 3, 7, 64, 4096}) {
    const auto chunk = DecodePushChunk(Split(bytes, piece));
    ASSERT_TRUE(chunk.ok()) << chunk.status();
    EXPECT_EQ(chunk->header, header);
    std::vector<float> to(data.size());
    ASSERT_TRUE(chunk->payload.CopyTo(absl::MakeSpan(to)).ok());
    EXPECT_EQ(to, data);
    EXPECT_EQ(Joined(Encode(chunk->header, to)), bytes);
  }
}

TEST(ChunkCodecTest, APullChunkDecodedAndEncodedAgainHasEqualBytes) {
  const std::vector<float> data = Floats(100);
  const std::string bytes =
      Joined(Encode(PullChunkHeader{Version(5), 4096, FloatType::kFp32}, data));
  const auto chunk = DecodePullChunk(Split(bytes, 5));
  ASSERT_TRUE(chunk.ok());
  std::vector<float> to(100);
  ASSERT_TRUE(chunk->payload.CopyTo(absl::MakeSpan(to)).ok());
  EXPECT_EQ(Joined(Encode(chunk->header, to)), bytes);
}

TEST(ChunkCodecTest, ThePayloadIsNotCopiedAndItsOwnerIsToldOnceWhenItIsFree) {
  const std::vector<float> data = Floats(4096);
  int released = 0;
  {
    const grpc::ByteBuffer buffer = EncodePullChunk(
        {Version(1), 0, FloatType::kFp32},
        InPlace(data, ChunkChecksum(data), [&released] { ++released; }));
    std::vector<grpc::Slice> slices;
    ASSERT_TRUE(buffer.Dump(&slices).ok());
    EXPECT_EQ(static_cast<const void*>(slices.back().begin()), data.data());
    EXPECT_EQ(released, 0);
  }
  EXPECT_EQ(released, 1);
}

TEST(ChunkCodecTest, APushedPayloadIsACopyThatTheCallersFloatsMayLeave) {
  std::vector<float> data = Floats(5000);  // Several pieces of the copy.
  const std::string expected = AsProto(SomePush(), data).SerializeAsString();
  const grpc::ByteBuffer buffer = Encode(SomePush(), data);
  std::fill(data.begin(), data.end(), -1.0f);
  EXPECT_EQ(Joined(buffer), expected);
}

// Any client can compute it with the library's plain function.
TEST(ChunkCodecTest, AChecksumIsTheSameWithWhateverInstructionsAndPieces) {
  for (const size_t count : {0, 1, 31, 64, 1025, 4096, 4097, 100003}) {
    const std::vector<float> data = Floats(count);
    const uint64_t plain =
        XXH3_64bits(data.data(), data.size() * sizeof(float));
    std::vector<uint8_t> copy(data.size() * sizeof(float));
    EXPECT_EQ(ChunkChecksum(data), plain) << count;
    EXPECT_EQ(CopyWithChecksum(data, copy.data()), plain) << count;
    EXPECT_TRUE(copy.empty() ||
                std::memcmp(copy.data(), data.data(), copy.size()) == 0);
  }
}

TEST(ChunkCodecTest, AWrongChecksumIsDataLossAndAWrongSizeSaysBothNumbers) {
  const std::vector<float> data = Floats(8);
  std::string bytes =
      Joined(Encode(PullChunkHeader{Version(1), 0, FloatType::kFp32}, data));
  bytes.back() ^= 1;
  const auto chunk = DecodePullChunk(Split(bytes, 64));
  ASSERT_TRUE(chunk.ok());
  std::vector<float> to(8);
  EXPECT_EQ(chunk->payload.CopyTo(absl::MakeSpan(to)).code(),
            absl::StatusCode::kDataLoss);
  to.resize(9);
  EXPECT_EQ(chunk->payload.CopyTo(absl::MakeSpan(to)).message(),
            "chunk has 32 bytes, expected 36");
}

// Checks that both parsers accept or refuse `bytes` alike and read the same.
void ExpectAsProtobuf(const std::string& bytes) {
  proto::PushChunk message;
  const bool taken = message.ParseFromString(bytes);
  const auto chunk = DecodePushChunk(Split(bytes, 11));
  ASSERT_EQ(chunk.ok(), taken) << absl::StrCat("bytes: ", bytes.size());
  if (!taken) return;
  EXPECT_EQ(chunk->header.key.generation.value(), message.key().generation());
  EXPECT_EQ(chunk->header.key.worker.value(), message.key().worker());
  EXPECT_EQ(chunk->header.key.incarnation.value(), message.key().incarnation());
  EXPECT_EQ(chunk->header.key.sequence.value(), message.key().sequence());
  EXPECT_EQ(chunk->header.grant, message.grant());
  EXPECT_EQ(chunk->header.offset, message.offset());
  EXPECT_EQ(static_cast<int>(chunk->header.type), message.type());
  EXPECT_EQ(DataOf(chunk->payload), message.data());
}

TEST(ChunkCodecTest, AChunkCarriesTheBytesOfItsType) {
  const std::vector<float> data = Floats(40);
  const WireFormat format({{3, 5}});
  for (const FloatType type : {FloatType::kBf16, FloatType::kFp16}) {
    PushChunkHeader header = SomePush();
    header.type = type;
    std::vector<uint8_t> bytes(format.Bytes(type, {0, 40}));
    const uint64_t checksum = format.Encode(type, {0, 40}, data, bytes.data());
    proto::PushChunk message = AsProto(header, data);
    message.set_data(bytes.data(), bytes.size());
    message.set_checksum(checksum);
    EXPECT_EQ(
        Joined(EncodePushChunk(header, CopyOf(format, type, {0, 40}, data))),
        message.SerializeAsString());
  }
}

TEST(ChunkCodecTest, TheLargestChunkOfAJobFitsIntoAMessage) {
  // limits.chunk_bytes of 4 MiB, only statistics, and the longest header
  // fields.
  const ParameterRange all = {0, 1 << 20};
  const std::vector<float> data(all.size());
  PushChunkHeader header = {
      {Generation(-1), WorkerId(-1), Incarnation(-1), Sequence(-1)},
      "sixteen bytes ok",
      -1};
  for (const FloatType type :
       {FloatType::kFp32, FloatType::kBf16, FloatType::kFp16}) {
    header.type = type;
    EXPECT_LE(
        EncodePushChunk(header, CopyOf(WireFormat({all}), type, all, data))
            .Length(),
        kMaxMessageBytes);
  }
}

// A later version of the format may have more enumerators.
TEST(ChunkCodecTest, AnUnknownTypeIsReadAsProtobufReadsIt) {
  for (const uint64_t type :
       {uint64_t{7}, uint64_t{1} << 31, ~uint64_t{0}, uint64_t{1} << 40}) {
    std::string bytes("\x28", 1);
    for (uint64_t v = type; true; v >>= 7) {
      bytes.push_back(static_cast<char>(v < 0x80 ? v : v | 0x80));
      if (v < 0x80) break;
    }
    ExpectAsProtobuf(bytes);
  }
}

TEST(ChunkCodecTest, EveryTruncationIsJudgedAsProtobufJudgesIt) {
  const std::string bytes = AsProto(SomePush(), Floats(9)).SerializeAsString();
  for (size_t n = 0; n <= bytes.size(); ++n) {
    ExpectAsProtobuf(bytes.substr(0, n));
  }
}

TEST(ChunkCodecTest, OddButLegalAndIllegalFormsAreJudgedAsProtobufJudgesThem) {
  using std::string;
  const string whole = AsProto(SomePush(), Floats(3)).SerializeAsString();
  const string cases[] = {
      whole + whole,                               // The last one counts.
      whole + string("\x0a\x02\x08\x05", 4),       // Keys merge.
      string("\x0a\x00", 2),                       // An empty key.
      string("\x7a\x00", 2),                       // Empty data.
      string("\x18\x85\x80\x00", 4),               // A padded varint.
      string("\xfa\x00\x01x", 4),                  // A padded tag.
      string("\x98\x80\x80\x80\x00\x01", 6),       // Five bytes of tag,
      string("\x98\x80\x80\x80\x80\x00\x01", 7),   // and six.
      string("\x7a\x81\x80\x80\x80\x00x", 7),      // Five bytes of length,
      string("\x7a\x81\x80\x80\x80\x80\x00x", 8),  // six,
      string("\x7a\xff\xff\xff\xff\x0f", 6),       // 4 GiB,
      string("\x7a\xff\xff\xff\xff\x7f", 6),       // and too much.
      string("\x18\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11),  // -1,
      string("\x18\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f", 11),  // more,
      string("\x18\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 12),
      string("\x1d\x01\x02\x03\x04", 5),  // Another wire type: unknown.
      string("\x23\x08\x01\x24", 4),      // A group is skipped,
      string("\x23\x08\x01\x1c", 4),      // ended by another's end,
      string("\x23\x08\x01", 3),          // never ended,
      string("\x24", 1),                  // never begun.
      string("\x00", 1),                  // Field 0.
      string("\x02\x00", 2),              // Field 0 with a length.
      string("\x1e", 1),
      string("\x1f", 1),                      // No such wire type.
      string("\x0a\x03\x08\x80\x80\x01", 6),  // A varint leaves its message.
  };
  for (const string& bytes : cases) ExpectAsProtobuf(bytes);
}

TEST(ChunkCodecTest, GroupsAreFollowedAsDeepAsProtobufDoesAlsoWithinAKey) {
  for (const int depth : {1, 99, 100, 101}) {
    std::string groups;
    for (int i = 0; i < depth; ++i) groups += "\xa3\x01";
    for (int i = 0; i < depth; ++i) groups += "\xa4\x01";
    ExpectAsProtobuf(groups);
    std::string key = "\x0a";
    key.push_back(static_cast<char>(groups.size() % 128 | 128));
    key.push_back(static_cast<char>(groups.size() / 128));
    ExpectAsProtobuf(key + groups);
    ExpectAsProtobuf(key + groups + groups);  // After the key again.
  }
}

TEST(ChunkCodecTest, RandomDamageIsJudgedAsProtobufJudgesIt) {
  constexpr unsigned kSeed = 20240117;
  std::mt19937 random(kSeed);
  const std::string good = AsProto(SomePush(), Floats(6)).SerializeAsString();
  int taken = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string bytes = good;
    for (int changes = random() % 4 + 1; changes > 0; --changes) {
      bytes[random() % (random() % 2 ? 20 : bytes.size())] =
          static_cast<char>(random());
    }
    ExpectAsProtobuf(bytes);
    if (HasFatalFailure()) FAIL() << "seed " << kSeed << " round " << round;
    taken += DecodePushChunk(Split(bytes, 64)).ok();
  }
  EXPECT_GT(taken, 1000);  // Both outcomes were reached.
  EXPECT_LT(taken, 19000);
}

TEST(ChunkCodecTest, OtherMessagesTravelThroughProtobuf) {
  proto::PullRequest request;
  request.set_version(12);
  proto::PullRequest back;
  ASSERT_TRUE(DecodeMessage(EncodeMessage(request), &back).ok());
  EXPECT_EQ(back.SerializeAsString(), request.SerializeAsString());
  EXPECT_EQ(DecodeMessage(Split("\x0a\xff", 1), &back).message(),
            "sluice.proto.PullRequest is malformed");
}

}  // namespace
}  // namespace sluice
