// libjpeg reports an error by a call that must not return, so it jumps back to
// where the library was entered. Nothing with a destructor lives in a function
// that may be left so: each is a plain function on State that says whether it
// came to its end.
//
// A crop of a 500 x 375 image at (left 100, width 120): the library decodes
// whole blocks, from the one that holds column 92, so that chroma is
// interpolated from the same neighbours as in the whole image.
#include "worker/data/jpeg_decoder.h"

#include <csetjmp>
#include <cstdio>
// libjpeg's header needs FILE.
#include <jpeglib.h>
// Needs jpeglib.h.
#include <jerror.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace sluice {
namespace {

constexpr int64_t kMostPixels = int64_t{1} << 26;
// A progressive image has some ten. Each costs as much as an image.
constexpr int kMostScans = 100;
// Columns beside the crop that its own pixels may be interpolated from.
constexpr int64_t kMargin = 8;

// Of a product of two values of 0 to 255.
uint8_t Scaled(int product) {
  return static_cast<uint8_t>((product + 127) / 255);
}

}  // namespace

struct JpegDecoder::State {
  jpeg_decompress_struct image = {};
  jpeg_error_mgr error = {};
  jpeg_progress_mgr progress = {};
  std::jmp_buf failed;
  char message[JMSG_LENGTH_MAX] = "";

  static State& Of(j_common_ptr image) {
    return *static_cast<State*>(image->client_data);
  }
  [[noreturn]] static void Fail(j_common_ptr image) {
    State& state = Of(image);
    (*image->err->format_message)(image, state.message);
    std::longjmp(state.failed, 1);
  }
  // A warning is damage that the library makes up pixels for, but for those
  // that lose none: bytes too many between markers, and what careless encoders
  // write into headers.
  static void Warn(j_common_ptr image, int level) {
    if (level >= 0) return;
    switch (image->err->msg_code) {
      case JWRN_EXTRANEOUS_DATA:
      case JWRN_BOGUS_PROGRESSION:
      case JWRN_ADOBE_XFORM:
      case JWRN_JFIF_MAJOR:
      case JWRN_NOT_SEQUENTIAL:
        return;
      default:
        Fail(image);
    }
  }
  static void Progress(j_common_ptr image) {
    if (reinterpret_cast<j_decompress_ptr>(image)->input_scan_number <=
        kMostScans) {
      return;
    }
    State& state = Of(image);
    std::snprintf(state.message, sizeof(state.message),
                  "has more than %d scans", kMostScans);
    std::longjmp(state.failed, 1);
  }

  bool cmyk() const { return image.out_color_space == JCS_CMYK; }

  bool ReadHeader(const char* bytes, size_t size) {
    if (setjmp(failed) != 0) return false;
    jpeg_mem_src(&image, reinterpret_cast<const unsigned char*>(bytes), size);
    jpeg_read_header(&image, TRUE);
    const bool four = image.jpeg_color_space == JCS_CMYK ||
                      image.jpeg_color_space == JCS_YCCK;
    image.out_color_space = four ? JCS_CMYK : JCS_EXT_RGBX;
    image.dct_method = JDCT_ISLOW;
    // It looks at blocks beside the crop.
    image.do_block_smoothing = FALSE;
    return true;
  }
  // Starts to decode columns from `*left` on, `*width` of them; sets both to
  // those that will come. Then passes over the rows above `top`.
  bool Start(int64_t top, JDIMENSION* left, JDIMENSION* width) {
    if (setjmp(failed) != 0) return false;
    jpeg_start_decompress(&image);
    if (*width < image.output_width) {
      jpeg_crop_scanline(&image, left, width);
    }
    if (top > 0) jpeg_skip_scanlines(&image, static_cast<JDIMENSION>(top));
    return true;
  }
  bool ReadRows(int64_t rows, int64_t row_bytes, uint8_t* to) {
    if (setjmp(failed) != 0) return false;
    for (int64_t y = 0; y < rows; ++y) {
      JSAMPROW row = to + y * row_bytes;
      jpeg_read_scanlines(&image, &row, 1);
    }
    return true;
  }
};

JpegDecoder::JpegDecoder() : state_(std::make_unique<State>()) {
  State& state = *state_;
  state.image.err = jpeg_std_error(&state.error);
  state.error.error_exit = State::Fail;
  state.error.emit_message = State::Warn;
  state.image.client_data = &state;
  // Fails only if the library is not that of its header.
  SLUICE_CHECK(setjmp(state.failed) == 0);
  jpeg_create_decompress(&state.image);
  state.progress.progress_monitor = State::Progress;
  state.image.progress = &state.progress;
}

JpegDecoder::~JpegDecoder() { jpeg_destroy_decompress(&state_->image); }

absl::StatusOr<ImageSize> JpegDecoder::Begin(absl::string_view image) {
  jpeg_abort_decompress(&state_->image);
  if (!state_->ReadHeader(image.data(), image.size())) {
    return absl::DataLossError(state_->message);
  }
  const ImageSize size = {state_->image.image_height,
                          state_->image.image_width};
  if (size.height * size.width > kMostPixels) {
    return absl::DataLossError(absl::StrCat(size.height, " x ", size.width,
                                            " pixels, expected at most ",
                                            kMostPixels));
  }
  return size;
}

absl::StatusOr<PixelView> JpegDecoder::Decode(const Rectangle& crop) {
  const int64_t columns = state_->image.image_width;
  SLUICE_CHECK(crop.top >= 0 && crop.left >= 0 && crop.height > 0 &&
               crop.width > 0 && crop.left + crop.width <= columns &&
               crop.top + crop.height <= state_->image.image_height);
  const int64_t from = std::max<int64_t>(0, crop.left - kMargin);
  const int64_t to = std::min(columns, crop.left + crop.width + kMargin);
  auto left = static_cast<JDIMENSION>(from);
  auto width = static_cast<JDIMENSION>(to - from);
  if (!state_->Start(crop.top, &left, &width)) {
    return absl::DataLossError(state_->message);
  }
  if (width == columns) left = 0;
  const int64_t row_bytes = int64_t{width} * kPixelBytes;
  pixels_.resize(crop.height * row_bytes);
  if (!state_->ReadRows(crop.height, row_bytes, pixels_.data())) {
    return absl::DataLossError(state_->message);
  }
  if (state_->cmyk()) {
    // Adobe stores how much light each ink lets through, others how much it
    // holds back.
    const int inks = state_->image.saw_Adobe_marker ? 0 : 255;
    for (size_t i = 0; i < pixels_.size(); i += kPixelBytes) {
      const int black = inks ^ pixels_[i + 3];
      for (int c = 0; c < 3; ++c) {
        pixels_[i + c] = Scaled((inks ^ pixels_[i + c]) * black);
      }
    }
  }
  return PixelView{pixels_.data() + (crop.left - left) * kPixelBytes, row_bytes,
                   crop.height, crop.width};
}

}  // namespace sluice
