// Two images of class 1 of data/train, and one of an archive:
//
//   containers_  "data/train/dog", "data/train-0.tar" (archive)
//   names_       "1.jpg\02.jpg\0s0.jpg\0"
//   images_      {0, label 1, name 0}, {0, 1, 6}, {1, label 7, 12, offset 512}
#include "common/image_list.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/file_operations.h"
#include "common/input_file.h"
#include "common/sha256.h"
#include "common/status_macros.h"
#include "common/tar_file.h"

namespace sluice {
namespace {

constexpr int64_t kMostImageBytes = 256 << 20;
constexpr int64_t kMostLabelBytes = 32;

// The part of a file's name behind its last dot, in lower case.
std::string Extension(absl::string_view name) {
  const size_t dot = name.rfind('.');
  if (dot == absl::string_view::npos) return "";
  return absl::AsciiStrToLower(name.substr(dot + 1));
}

bool IsJpeg(absl::string_view name) {
  const std::string extension = Extension(name);
  return extension == "jpg" || extension == "jpeg";
}

// What somebody may take for an image that is read.
bool IsOtherImage(absl::string_view name) {
  const std::string extension = Extension(name);
  for (const char* other :
       {"png", "webp", "bmp", "gif", "tif", "tiff", "ppm"}) {
    if (extension == other) return true;
  }
  return false;
}

absl::Status RefuseOther(absl::string_view path) {
  return absl::InvalidArgumentError(
      absl::StrCat(path, ": expected .jpg or .jpeg, only JPEG is read"));
}

absl::StatusOr<bool> IsFolder(const std::string& path) {
  struct stat stat = {};
  if (::stat(path.c_str(), &stat) == 0) return S_ISDIR(stat.st_mode);
  const std::string message =
      absl::StrCat(path, ": cannot be opened: ", std::strerror(errno));
  return errno == ENOENT ? absl::NotFoundError(message)
                         : absl::InvalidArgumentError(message);
}

// One image of an archive: its parts may come in any order.
struct Sample {
  std::optional<TarMember> image;
  std::optional<int> label;
};

absl::StatusOr<int> ReadLabel(const InputFile& archive,
                              const TarMember& member) {
  std::string text(std::min(member.bytes, kMostLabelBytes), '\0');
  SLUICE_RETURN_IF_ERROR(
      archive.ReadAt(member.offset, std::ssize(text), text.data()));
  int label = 0;
  if (absl::SimpleAtoi(text, &label) && label >= 0) return label;
  return absl::DataLossError(
      absl::StrCat(archive.path(), ": ", member.name,
                   ": expected a label, a whole number of 0 or more"));
}

}  // namespace

absl::StatusOr<ImageList> ImageList::Read(
    const std::vector<std::string>& paths,
    const std::vector<std::string>& classes) {
  ImageList list;
  list.classes_ = classes;
  for (const std::string& path : paths) {
    SLUICE_ASSIGN_OR_RETURN(const bool folder, IsFolder(path));
    SLUICE_RETURN_IF_ERROR(folder ? list.AddFolder(path)
                                  : list.AddArchive(path));
  }
  return list;
}

absl::Status ImageList::AddFolder(const std::string& path) {
  SLUICE_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                          FileOperations::Real()->List(path));
  std::vector<std::string> archives, folders;
  for (const std::string& name : names) {
    if (absl::StartsWith(name, ".")) continue;
    if (Extension(name) == "tar") {
      archives.push_back(absl::StrCat(path, "/", name));
      continue;
    }
    if (IsJpeg(name)) {
      return absl::InvalidArgumentError(absl::StrCat(
          path, "/", name, ": expected it in a folder named after its class"));
    }
    SLUICE_ASSIGN_OR_RETURN(const bool folder,
                            IsFolder(absl::StrCat(path, "/", name)));
    if (folder) folders.push_back(name);
  }
  if (archives.empty() == folders.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        path, ": has ", folders.size(), " folders and ", archives.size(),
        " tar files, expected a folder for each class, or tar files"));
  }
  for (const std::string& archive : archives) {
    SLUICE_RETURN_IF_ERROR(AddArchive(archive));
  }
  if (classes_.empty()) classes_ = folders;
  for (const std::string& folder : folders) {
    const auto found =
        std::lower_bound(classes_.begin(), classes_.end(), folder);
    if (found == classes_.end() || *found != folder) {
      return absl::InvalidArgumentError(absl::StrCat(
          path, "/", folder, ": is no class of the first training folder, ",
          "which has ", classes_.size(), " from ", classes_.front(), " to ",
          classes_.back()));
    }
    SLUICE_RETURN_IF_ERROR(
        AddClass(absl::StrCat(path, "/", folder),
                 static_cast<int>(found - classes_.begin())));
  }
  return absl::OkStatus();
}

absl::Status ImageList::AddClass(const std::string& folder, int label) {
  SLUICE_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                          FileOperations::Real()->List(folder));
  containers_.push_back({.path = folder});
  const int64_t before = size();
  for (const std::string& name : names) {
    if (absl::StartsWith(name, ".")) continue;
    if (IsOtherImage(name)) return RefuseOther(absl::StrCat(folder, "/", name));
    if (IsJpeg(name)) Add(label, name, 0, -1);
  }
  if (size() > before) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(folder,
                   ": has no .jpg or .jpeg file, expected the images "
                   "of a class"));
}

absl::Status ImageList::AddArchive(const std::string& path) {
  SLUICE_ASSIGN_OR_RETURN(const InputFile archive, InputFile::Open(path));
  containers_.push_back({.path = path, .archive = true});
  const int64_t before = size();
  std::string key;  // Of the sample whose members come.
  Sample sample;
  const auto end_sample = [&]() -> absl::Status {
    const Sample ended = std::exchange(sample, {});
    if (!ended.image.has_value()) return absl::OkStatus();
    if (!ended.label.has_value()) {
      return absl::DataLossError(absl::StrCat(path, ": ", ended.image->name,
                                              ": expected ", key,
                                              ".cls, its label, beside it"));
    }
    Add(*ended.label, ended.image->name, ended.image->offset,
        ended.image->bytes);
    return absl::OkStatus();
  };
  SLUICE_RETURN_IF_ERROR(WalkTar(archive, [&](TarMember member) {
    const size_t slash = member.name.rfind('/');
    const size_t file = slash == std::string::npos ? 0 : slash + 1;
    const std::string of = member.name.substr(0, member.name.find('.', file));
    if (of != key) {
      SLUICE_RETURN_IF_ERROR(end_sample());
      key = of;
    }
    if (IsOtherImage(member.name)) {
      return RefuseOther(absl::StrCat(path, ": ", member.name));
    }
    if (IsJpeg(member.name)) {
      if (sample.image.has_value()) {
        return absl::DataLossError(
            absl::StrCat(path, ": ", member.name, ": expected one image named ",
                         key, ", there is ", sample.image->name));
      }
      sample.image = std::move(member);
    } else if (Extension(member.name) == "cls") {
      SLUICE_ASSIGN_OR_RETURN(sample.label, ReadLabel(archive, member));
    }
    return absl::OkStatus();
  }));
  SLUICE_RETURN_IF_ERROR(end_sample());
  if (size() > before) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(path, ": has no .jpg or .jpeg member, expected images"));
}

void ImageList::Add(int label, absl::string_view name, int64_t offset,
                    int64_t bytes) {
  images_.push_back({.container = static_cast<int32_t>(containers_.size()) - 1,
                     .label = label,
                     .name = std::ssize(names_),
                     .offset = offset,
                     .bytes = bytes});
  names_.append(name.data(), name.size());
  names_.push_back('\0');
}

std::string ImageList::PathOf(int64_t i) const {
  const Container& container = containers_[images_[i].container];
  return absl::StrCat(container.path, container.archive ? ": " : "/",
                      NameOf(images_[i]));
}

absl::StatusOr<std::string> ImageList::Bytes(int64_t i) const {
  const Image& image = images_[i];
  const Container& container = containers_[image.container];
  SLUICE_ASSIGN_OR_RETURN(
      const InputFile file,
      InputFile::Open(container.archive ? container.path : PathOf(i)));
  const int64_t bytes = image.bytes < 0 ? file.size() : image.bytes;
  if (bytes > kMostImageBytes) {
    return absl::DataLossError(absl::StrCat(PathOf(i), ": has ", bytes,
                                            " bytes, expected at most ",
                                            kMostImageBytes));
  }
  std::string read(bytes, '\0');
  SLUICE_RETURN_IF_ERROR(file.ReadAt(image.offset, bytes, read.data()));
  return read;
}

// Neither paths nor places in archives count, so that workers may have the
// images in other places.
std::string ImageList::Digest() const {
  Sha256 sha;
  sha.Update(absl::StrCat(size(), " images\n"));
  for (const Image& image : images_) {
    sha.Update(absl::StrCat(image.label, " ", NameOf(image), "\n"));
  }
  return sha.Hex();
}

absl::StatusOr<JpegLists> ListJpegs(const proto::Jpeg& jpeg) {
  const auto paths = [](const auto& named) {
    return std::vector<std::string>(named.begin(), named.end());
  };
  JpegLists lists;
  SLUICE_ASSIGN_OR_RETURN(lists.train,
                          ImageList::Read(paths(jpeg.train()), {}));
  SLUICE_ASSIGN_OR_RETURN(
      lists.test, ImageList::Read(paths(jpeg.test()), lists.train.classes()));
  return lists;
}

}  // namespace sluice
