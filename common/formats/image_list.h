#ifndef SLUICE_COMMON_FORMATS_IMAGE_LIST_H_
#define SLUICE_COMMON_FORMATS_IMAGE_LIST_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/files/input_file.h"
#include "proto/job.pb.h"

namespace sluice {

constexpr int kJpegChannels = 3;       // Red, green, blue.
constexpr int kMostJpegSize = 4096;    // data.jpeg.size
constexpr int kMostJpegResize = 8192;  // data.jpeg.resize

// What `sluice check` counts for each image of a list.
constexpr int64_t kListedImageBytes = 64;

// JPEG files and their labels, without their bytes. A path that is listed is
// one of
//
//   a folder with a folder for each class, whose .jpg and .jpeg files, also in
//     folders below it, are its images (torchvision's ImageFolder); labels are
//     the classes' places in the order of their names
//   a tar file, or a folder of tar files (WebDataset): NAME.jpg or NAME.jpeg,
//     then or before it NAME.cls with the label as decimal text; NAME has no
//     dot behind its last slash. Other members beside them, as NAME.left.jpg,
//     are passed over; links in the place of an image or a label are refused,
//     and NAME.left.jpg where there is no NAME.jpg, or a NAME.left.cls
//
// and names that begin with a dot are passed over.
//
// Images are in the order of their paths, within one in the order of class and
// file names, or of the archives' names and of their members.
//
// Immutable after it is made, therefore thread-safe.
class ImageList {
 public:
  ImageList() = default;

  // The names of the class folders of the first path, in order; none if it is
  // of tar files. Errors as below.
  static absl::StatusOr<std::vector<std::string>> ReadClasses(
      const std::vector<std::string>& paths);
  // Lists `paths`: class folders that are among `classes`, or tar files if
  // these are none. Reads folders and archives' headers and .cls members, no
  // image. kNotFound, kInvalidArgument and kDataLoss name the path, what was
  // expected and what was found; kUnavailable: the system cannot say.
  static absl::StatusOr<ImageList> Read(
      const std::vector<std::string>& paths,
      const std::vector<std::string>& classes);

  int64_t size() const { return static_cast<int64_t>(images_.size()); }
  // REQUIRES, below: 0 <= i < size().
  int label(int64_t i) const { return images_[i].label; }
  // "train/cat/1.jpg" or "train-0.tar: 1.jpg", with what is not ASCII escaped.
  std::string PathOf(int64_t i) const;
  // The bytes of image i. kNotFound, kUnavailable and kDataLoss, which is a
  // file of more than 256 MiB, name it; kNotFound also names an archive that is
  // not what was listed any more.
  absl::StatusOr<std::string> Bytes(int64_t i) const;
  // SHA-256 (hex) over classes, names, labels and order.
  std::string Digest() const;

 private:
  struct Image {
    int32_t container;  // The folder or archive.
    int32_t label;
    int64_t name;        // Where its name begins in `names_`.
    int64_t offset;      // In the archive.
    int64_t bytes = -1;  // A file of its own: as many as it has.
  };
  struct Container {
    std::string path;
    std::optional<InputFile::Identity> archive = {};  // Else a folder.
  };

  absl::Status AddClassFolder(const std::string& folder, int label);
  // Those of the class folder that was added last in its folder `below`, which
  // is "" or ends with a slash and lies `depth` folders down.
  absl::Status AddFolderBelow(const std::string& below, int label, int depth);
  absl::Status AddArchive(const std::string& path);
  void Add(int label, absl::string_view name, int64_t offset, int64_t bytes);
  absl::string_view NameOf(const Image& image) const {
    return names_.data() + image.name;
  }

  std::vector<std::string> classes_;  // None if labels are in archives.
  std::vector<Container> containers_;
  std::vector<Image> images_;
  std::string names_;  // One behind the other, each ended by NUL.
};

// The images that a job trains or tests on, both with the classes of the
// training paths; empty if it names no test paths. Errors as above.
absl::StatusOr<ImageList> ListTrainingJpegs(const proto::Jpeg& jpeg);
absl::StatusOr<ImageList> ListTestJpegs(const proto::Jpeg& jpeg);

}  // namespace sluice

#endif  // SLUICE_COMMON_FORMATS_IMAGE_LIST_H_
