#ifndef SLUICE_COMMON_FORMATS_CIFAR_FILE_H_
#define SLUICE_COMMON_FORMATS_CIFAR_FILE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/job.pb.h"

namespace sluice {

constexpr int kCifarChannels = 3;  // Red, green, blue.
constexpr int kCifarSide = 32;     // Pixels.
constexpr int kCifarImageBytes = kCifarChannels * kCifarSide * kCifarSide;

// Images and labels of CIFAR's binary files (Krizhevsky 2009).
struct CifarImages {
  std::vector<uint8_t> pixels;  // (images, channels, side, side)
  std::vector<uint8_t> labels;  // (images)
};

// How many classes the files' labels have.
int CifarClasses(proto::Cifar::Classes classes);

// Number of images in a file, computed from its size. Errors of InputFile.
// kInvalidArgument also: its size is 0 or not a multiple of an image with its
// labels. Messages name the file, what was expected and what was found.
absl::StatusOr<int64_t> CountCifarImages(const std::string& path,
                                         proto::Cifar::Classes classes);

// Appends the file's images to `*images`. Errors as above, and kDataLoss for a
// label that `classes` does not have, naming image and label.
absl::Status AppendCifarFile(const std::string& path,
                             proto::Cifar::Classes classes,
                             CifarImages* images);

}  // namespace sluice

#endif  // SLUICE_COMMON_FORMATS_CIFAR_FILE_H_
