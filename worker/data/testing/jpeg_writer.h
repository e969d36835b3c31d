#ifndef SLUICE_WORKER_DATA_TESTING_JPEG_WRITER_H_
#define SLUICE_WORKER_DATA_TESTING_JPEG_WRITER_H_

#include <cstdint>
#include <string>

#include "absl/types/span.h"

namespace sluice {

struct JpegWriterOptions {
  // Values of a pixel: 1 grey, 3 red, green, blue, 4 CMYK as Adobe stores it.
  int channels = 3;
  int quality = 95;
  bool halves_chroma = true;  // Along both axes; only with 3 channels.
  bool progressive = false;
};

// A JPEG image of (height, width, channels) values.
std::string WriteJpeg(absl::Span<const uint8_t> values, int height, int width,
                      const JpegWriterOptions& options = {});

// The same of a picture with gradients, edges and noise, other for each `seed`.
std::string WritePicture(int height, int width, int seed,
                         const JpegWriterOptions& options = {});

}  // namespace sluice

#endif  // SLUICE_WORKER_DATA_TESTING_JPEG_WRITER_H_
