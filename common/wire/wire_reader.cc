#include "common/wire/wire_reader.h"

#include <algorithm>

namespace sluice {
namespace {

// Protobuf's own bound on nesting.
constexpr int kMaxDepth = 100;

}  // namespace

WireReader::WireReader(absl::Span<const Bytes> parts) : parts_(parts) {
  for (const Bytes& part : parts_) remaining_ += part.size();
}

Bytes WireReader::TakePiece(size_t most) {
  while (position_ == parts_[part_].size()) {
    ++part_;
    position_ = 0;
  }
  const Bytes piece = parts_[part_].subspan(position_, most);
  position_ += piece.size();
  remaining_ -= piece.size();
  return piece;
}

bool WireReader::ReadByte(uint8_t* byte) {
  if (remaining_ == 0) return false;
  *byte = TakePiece(1)[0];
  return true;
}

bool WireReader::ReadVarint(uint64_t* value) {
  *value = 0;
  for (int shift = 0; shift < 70; shift += 7) {  // At most ten bytes.
    uint8_t byte;
    if (!ReadByte(&byte)) return false;
    *value |= static_cast<uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) return true;
  }
  return false;
}

bool WireReader::ReadTag(uint32_t* tag) {
  *tag = 0;
  for (int shift = 0; shift < 35; shift += 7) {  // At most five bytes.
    uint8_t byte;
    if (!ReadByte(&byte)) return false;
    *tag |= static_cast<uint32_t>(byte & 0x7f) << shift;
    if (byte < 0x80) return *tag >> 3 != 0;  // There is no field 0.
  }
  return false;
}

bool WireReader::ReadFixed64(uint64_t* value) {
  if (remaining_ < 8) return false;
  *value = 0;
  for (int i = 0; i < 8; ++i) {
    const uint8_t byte = TakePiece(1)[0];
    *value |= static_cast<uint64_t>(byte) << (8 * i);
  }
  return true;
}

bool WireReader::ReadLength(size_t* length) {
  uint64_t value = 0;
  for (int shift = 0; shift < 35; shift += 7) {
    uint8_t byte;
    if (!ReadByte(&byte)) return false;
    value |= static_cast<uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) {
      *length = static_cast<size_t>(value);
      return value <= remaining_;
    }
  }
  return false;
}

bool WireReader::Skip(size_t count) {
  if (count > remaining_) return false;
  while (count > 0) count -= TakePiece(count).size();
  return true;
}

bool WireReader::ReadBytes(std::vector<Bytes>* value) {
  value->clear();
  size_t length;
  if (!ReadLength(&length)) return false;
  while (length > 0) {
    value->push_back(TakePiece(length));
    length -= value->back().size();
  }
  return true;
}

bool WireReader::EnterMessage(size_t* outside) {
  size_t length;
  if (!ReadLength(&length)) return false;
  *outside = remaining_ - length;
  remaining_ = length;
  ++depth_;
  return true;
}

bool WireReader::SkipGroup(uint32_t field, int depth) {
  if (depth == kMaxDepth) return false;
  while (true) {
    uint32_t tag;
    if (!ReadTag(&tag)) return false;
    if ((tag & 7) == kEndGroup) return tag >> 3 == field;
    if (!SkipField(tag, depth + 1)) return false;
  }
}

bool WireReader::SkipField(uint32_t tag) { return SkipField(tag, depth_); }

bool WireReader::SkipField(uint32_t tag, int depth) {
  uint64_t number;
  size_t length;
  switch (tag & 7) {
    case kVarint:
      return ReadVarint(&number);
    case kFixed64:
      return Skip(8);
    case kLengthDelimited:
      return ReadLength(&length) && Skip(length);
    case kGroup:
      return SkipGroup(tag >> 3, depth);
    case kFixed32:
      return Skip(4);
    default:  // The end of a group that never began; or no wire type at all.
      return false;
  }
}

}  // namespace sluice
