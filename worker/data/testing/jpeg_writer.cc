#include "worker/data/testing/jpeg_writer.h"

#include <cstdio>
#include <cstdlib>
#include <vector>
// Needs FILE.
#include <jpeglib.h>

namespace sluice {

std::string WriteJpeg(absl::Span<const uint8_t> values, int height, int width,
                      const JpegWriterOptions& options) {
  jpeg_compress_struct image = {};
  jpeg_error_mgr error = {};
  image.err = jpeg_std_error(&error);  // Ends the process.
  jpeg_create_compress(&image);
  unsigned char* bytes = nullptr;
  unsigned long size = 0;  // NOLINT: libjpeg's type.
  jpeg_mem_dest(&image, &bytes, &size);
  image.image_height = height;
  image.image_width = width;
  image.input_components = options.channels;
  image.in_color_space = options.channels == 1   ? JCS_GRAYSCALE
                         : options.channels == 3 ? JCS_RGB
                                                 : JCS_CMYK;
  jpeg_set_defaults(&image);
  jpeg_set_quality(&image, options.quality, TRUE);
  if (options.channels == 3) {
    const int samples = options.halves_chroma ? 2 : 1;
    image.comp_info[0].h_samp_factor = samples;
    image.comp_info[0].v_samp_factor = samples;
  }
  if (options.progressive) jpeg_simple_progression(&image);
  jpeg_start_compress(&image, TRUE);
  for (int y = 0; y < height; ++y) {
    auto* row = const_cast<uint8_t*>(values.data()) +
                int64_t{y} * width * options.channels;
    jpeg_write_scanlines(&image, &row, 1);
  }
  jpeg_finish_compress(&image);
  std::string written(reinterpret_cast<char*>(bytes), size);
  jpeg_destroy_compress(&image);
  std::free(bytes);
  return written;
}

std::string WritePicture(int height, int width, int seed,
                         const JpegWriterOptions& options) {
  std::vector<uint8_t> values;
  uint32_t noise = 12345 + 7919 * seed;
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      for (int c = 0; c < options.channels; ++c) {
        noise = noise * 1664525 + 1013904223;
        const bool edge = (x / 16 + y / 24 + seed + c) % 3 == 0;
        values.push_back(
            (2 * x + 3 * y + 40 * c + (edge ? 90 : 0) + (noise >> 28)) % 256);
      }
    }
  }
  return WriteJpeg(values, height, width, options);
}

}  // namespace sluice
