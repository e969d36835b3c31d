// Reads any bytes as a tar file of images, or as a JPEG image.
//
// Must hold: what an archive lists lies inside it and can be read. An image is
// decoded or damaged, and a part of it has the size that was asked for. An
// error says what was expected or is wrong; the same decoder then decodes a
// whole image, in as many bytes as it claims to have pixels.
//
// Input: one byte (bit 0: an image), for an image four bytes that place the
// part in it, then the file.

#include <algorithm>
#include <string>

#include "absl/strings/match.h"
#include "common/formats/image_list.h"
#include "common/status_macros.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/fuzz/memory_file.h"
#include "worker/data/jpeg_decoder.h"

namespace sluice {
namespace {

void ReadArchive(const std::string& bytes) {
  const fuzz::MemoryFile file(bytes);
  const auto list = ImageList::Read({file.path()}, {});
  if (!list.ok()) {
    SLUICE_CHECK(absl::IsDataLoss(list.status()) ||
                 absl::IsInvalidArgument(list.status()));
    SLUICE_CHECK(absl::StartsWith(list.status().message(), file.path()));
    return;
  }
  SLUICE_CHECK(list->size() > 0);
  for (int64_t i = 0; i < list->size(); ++i) {
    SLUICE_CHECK(list->label(i) >= 0);
    SLUICE_CHECK(list->Bytes(i)->size() <= bytes.size());
    SLUICE_CHECK(absl::StartsWith(list->PathOf(i), file.path()));
  }
}

// A decoder fails on no image because of the one before it, so there is one.
void Decode(fuzz::FuzzInput input) {
  static auto* const decoder = new JpegDecoder;
  uint8_t place[4];
  for (uint8_t& byte : place) byte = input.Byte();
  const std::string bytes = input.Rest();
  const auto size = decoder->Begin(bytes);
  if (!size.ok()) {
    SLUICE_CHECK(absl::IsDataLoss(size.status()));
    SLUICE_CHECK(!size.status().message().empty());
    return;
  }
  SLUICE_CHECK(size->height > 0 && size->width > 0);
  // Whoever claims more makes this slow, not wrong.
  if (size->height * size->width > 1 << 20) return;
  Rectangle crop;
  crop.top = place[0] % size->height;
  crop.left = place[1] % size->width;
  crop.height = std::min<int64_t>(1 + place[2], size->height - crop.top);
  crop.width = std::min<int64_t>(1 + place[3], size->width - crop.left);
  const auto pixels = decoder->Decode(crop);
  if (!pixels.ok()) {
    SLUICE_CHECK(absl::IsDataLoss(pixels.status()));
    return;
  }
  SLUICE_CHECK(pixels->height == crop.height && pixels->width == crop.width);
  int sum = 0;  // Reads each, so that one behind the memory is noticed.
  for (int64_t y = 0; y < crop.height; ++y) {
    for (int64_t x = 0; x < crop.width; ++x) sum += *pixels->at(y, x);
  }
  SLUICE_CHECK(sum >= 0);
}

}  // namespace
}  // namespace sluice

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  sluice::fuzz::FuzzInput input(data, size);
  if (input.Byte() & 1) {
    sluice::Decode(input);
  } else {
    sluice::ReadArchive(input.Rest());
  }
  return 0;
}
