#ifndef SLUICE_WORKER_DATA_JPEG_DECODER_H_
#define SLUICE_WORKER_DATA_JPEG_DECODER_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/data/pixels.h"

namespace sluice {

// Decodes one JPEG image after the other, by libjpeg-turbo: baseline and
// progressive; grey, YCbCr, CMYK and YCCK. Its integer arithmetic gives the
// same pixels on every machine.
//
// Not thread-safe: one for each thread.
class JpegDecoder {
 public:
  JpegDecoder();
  JpegDecoder(const JpegDecoder&) = delete;
  JpegDecoder& operator=(const JpegDecoder&) = delete;
  ~JpegDecoder();

  // Reads the header of `image`, which must stay until the next Begin.
  // kDataLoss says what is wrong, also with one of more than 2^26 pixels.
  absl::StatusOr<ImageSize> Begin(absl::string_view image);

  // Decodes the part `crop` of the image that was begun, once; the same pixels
  // as of the whole. Of an image that is not progressive nothing is read below
  // it, so damage there goes unseen. kDataLoss: the image is damaged or ends
  // early. Memory: the part's pixels; of a progressive image six bytes for each
  // of its pixels, or eight if it is CMYK. REQUIRES: `crop` is not empty and
  // inside the image.
  absl::StatusOr<PixelView> Decode(const Rectangle& crop);

 private:
  struct State;  // libjpeg's.

  std::unique_ptr<State> state_;
  std::vector<uint8_t> pixels_;
};

}  // namespace sluice

#endif  // SLUICE_WORKER_DATA_JPEG_DECODER_H_
