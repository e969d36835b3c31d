#ifndef SLUICE_COMMON_WIRE_WIRE_READER_H_
#define SLUICE_COMMON_WIRE_WIRE_READER_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace sluice {

using Bytes = absl::Span<const uint8_t>;

// Reads protobuf's wire format from bytes that lie in several pieces, split
// anywhere, without joining them. Takes and refuses exactly what protobuf's
// own parser does. Every method returns false where the bytes are malformed or
// end too early; after that the reader's position means nothing.
// (https://protobuf.dev/programming-guides/encoding)
//
// The bytes, and `parts`, must outlive the reader.
//
// Not thread-safe: call from one thread.
class WireReader {
 public:
  enum WireType : uint32_t {
    kVarint = 0,
    kFixed64 = 1,
    kLengthDelimited = 2,
    kGroup = 3,
    kEndGroup = 4,
    kFixed32 = 5,
  };
  // A field's tag as it stands on the wire.
  static constexpr uint32_t Tag(uint32_t field, WireType type) {
    return field << 3 | type;
  }

  explicit WireReader(absl::Span<const Bytes> parts);

  // Bytes to the end of the innermost message; nothing can be read at 0.
  size_t remaining() const { return remaining_; }

  bool ReadTag(uint32_t* tag);
  bool ReadVarint(uint64_t* value);
  bool ReadFixed64(uint64_t* value);
  // A length-delimited field as the pieces it lies in; replaces `*value`.
  bool ReadBytes(std::vector<Bytes>* value);
  // Skips the field that `tag` begins, whatever it is.
  bool SkipField(uint32_t tag);

  // Narrows the reader to the message in a length-delimited field, until
  // LeaveMessage with what EnterMessage gave.
  bool EnterMessage(size_t* outside);
  // REQUIRES: remaining() == 0.
  void LeaveMessage(size_t outside) {
    remaining_ = outside;
    --depth_;
  }

 private:
  bool ReadByte(uint8_t* byte);
  bool ReadLength(size_t* length);
  bool Skip(size_t count);
  bool SkipGroup(uint32_t field, int depth);
  bool SkipField(uint32_t tag, int depth);
  // The rest of the piece at hand, at most `most` bytes; steps over them.
  Bytes TakePiece(size_t most);

  const absl::Span<const Bytes> parts_;
  size_t part_ = 0;      // The piece at hand,
  size_t position_ = 0;  // and where in it.
  size_t remaining_ = 0;
  int depth_ = 0;  // Messages that the reader is in, but for the outermost.
};

}  // namespace sluice

#endif  // SLUICE_COMMON_WIRE_WIRE_READER_H_
