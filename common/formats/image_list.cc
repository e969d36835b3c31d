// Two images of class 1 of data/train, and one of an archive:
//
//   containers_  "data/train/dog", "data/train-0.tar" (archive)
//   names_       "1.jpg\02.jpg\0s0.jpg\0"
//   images_      {0, label 1, name 0}, {0, 1, 6}, {1, label 7, 12, offset 512}
#include "common/formats/image_list.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/files/file_operations.h"
#include "common/files/input_file.h"
#include "common/formats/tar_file.h"
#include "common/sha256.h"
#include "common/status_macros.h"

namespace sluice {
namespace {

constexpr int64_t kMostImageBytes = 256 << 20;
constexpr int64_t kMostLabelBytes = 32;
constexpr int kMostDepth = 32;  // Of folders in a class: links may be circles.

// The part of a file's name behind its last dot, in lower case.
std::string Extension(absl::string_view name) {
  const size_t dot = name.rfind('.');
  if (dot == absl::string_view::npos) return "";
  return absl::AsciiStrToLower(name.substr(dot + 1));
}

bool IsJpeg(absl::string_view extension) {
  return extension == "jpg" || extension == "jpeg";
}

// What somebody may take for an image that is read.
bool IsOtherImage(absl::string_view extension) {
  for (const char* other : {"png", "webp", "bmp", "gif", "tif", "tiff", "ppm",
                            "pgm", "jfif", "jpe", "jp2", "heic", "avif"}) {
    if (extension == other) return true;
  }
  return false;
}

bool IsHidden(absl::string_view name) { return absl::StartsWith(name, "."); }

// The name with NUL, which none has, for each newline.
std::string InOneLine(absl::string_view name) {
  std::string line(name);
  std::replace(line.begin(), line.end(), '\n', '\0');
  return line;
}

// For messages and logs, which must be UTF-8 of one line: in ASCII.
std::string Readable(absl::string_view name) { return absl::CHexEscape(name); }

absl::Status RefuseOther(absl::string_view path) {
  return absl::InvalidArgumentError(
      absl::StrCat(path, ": expected .jpg or .jpeg, only JPEG is read"));
}

// A tar file that is compressed, by its name: "a.tar.gz".
bool IsPacked(absl::string_view name) {
  const std::string extension = Extension(name);
  if (extension == "tgz" || extension.empty()) return extension == "tgz";
  name.remove_suffix(extension.size() + 1);
  return Extension(name) == "tar";
}

absl::Status RefusePacked(absl::string_view path) {
  return absl::InvalidArgumentError(
      absl::StrCat(path,
                   ": is compressed, expected a plain tar file, whose "
                   "members can be read where they lie"));
}

struct Entry {
  std::string name;
  std::filesystem::file_type type = {};  // Of what a link leads to.
};

// What is in a folder, in the order of names, but for what is hidden. The
// system says the types with the names: there may be a million.
absl::StatusOr<std::vector<Entry>> Entries(const std::string& folder) {
  std::vector<Entry> entries;
  std::error_code error;
  std::filesystem::directory_iterator at(folder, error);
  for (; !error && at != std::filesystem::directory_iterator();
       at.increment(error)) {
    Entry entry = {at->path().filename().string()};
    if (IsHidden(entry.name)) continue;
    std::error_code unknown;  // As of a link that leads nowhere.
    if (at->is_regular_file(unknown)) {
      entry.type = std::filesystem::file_type::regular;
    } else if (at->is_directory(unknown)) {
      entry.type = std::filesystem::file_type::directory;
    }
    entries.push_back(std::move(entry));
  }
  if (error) {
    return absl::UnavailableError(
        absl::StrCat(Readable(folder), ": cannot be read: ", error.message()));
  }
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return a.name < b.name; });
  return entries;
}

// One image of an archive: its parts may come in any order.
struct Sample {
  std::optional<TarMember> image;
  std::optional<int> label;
  std::string other;  // An image that is none for us.
  // Members with more than an extension behind the name's first dot, "left.jpg"
  // and "left.cls", which are no parts of the image; empty: none.
  std::string dotted_image;
  std::string dotted_label;
};

// That all parts of what is named `key` have come, if it is an image.
absl::Status CheckSample(absl::string_view path, absl::string_view key,
                         const Sample& sample) {
  // Whoever names files "photo.2024.1.jpg" means images of their own.
  if (!sample.dotted_image.empty() &&
      (!sample.image.has_value() || !sample.dotted_label.empty())) {
    return absl::InvalidArgumentError(absl::StrCat(
        path, ": ", Readable(sample.dotted_image),
        ": expected a name with one dot, as NAME.jpg: in a tar file the name "
        "of an image ends at its first dot"));
  }
  if (!sample.image.has_value() && !sample.other.empty()) {
    return RefuseOther(absl::StrCat(path, ": ", Readable(sample.other)));
  }
  if (!sample.image.has_value() || sample.label.has_value()) {
    return absl::OkStatus();
  }
  return absl::DataLossError(absl::StrCat(
      path, ": ", Readable(sample.image->name), ": expected ", Readable(key),
      ".cls, its label, right before or behind it"));
}

absl::StatusOr<int> ReadLabel(const InputFile& archive,
                              const TarMember& member) {
  int label = -1;
  if (member.bytes <= kMostLabelBytes) {
    std::string text(member.bytes, '\0');
    SLUICE_RETURN_IF_ERROR(
        archive.ReadAt(member.offset, std::ssize(text), text.data()));
    if (!absl::SimpleAtoi(text, &label)) label = -1;
  }
  if (label >= 0) return label;
  return absl::DataLossError(
      absl::StrCat(archive.path(), ": ", Readable(member.name),
                   ": expected a label, a whole number of 0 or more"));
}

// What a path that is listed has: one of these.
struct Contents {
  std::vector<std::string> archives;  // Paths.
  std::vector<std::string> classes;   // Names of folders.
};

absl::StatusOr<Contents> ReadContents(const std::string& path) {
  Contents contents;
  SLUICE_ASSIGN_OR_RETURN(const bool is_folder,
                          FileOperations::Real()->IsFolder(path));
  if (!is_folder) {
    if (IsPacked(path)) return RefusePacked(path);
    contents.archives.push_back(path);
    return contents;
  }
  SLUICE_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                          FileOperations::Real()->List(path));
  for (const std::string& name : names) {
    if (IsHidden(name)) continue;
    const std::string inside = absl::StrCat(path, "/", name);
    if (Extension(name) == "tar") {
      contents.archives.push_back(inside);
      continue;
    }
    if (IsPacked(name)) return RefusePacked(Readable(inside));
    if (IsJpeg(Extension(name))) {
      return absl::InvalidArgumentError(absl::StrCat(
          Readable(inside), ": expected it in a folder named after its class"));
    }
    SLUICE_ASSIGN_OR_RETURN(const bool folder,
                            FileOperations::Real()->IsFolder(inside));
    if (folder) contents.classes.push_back(name);
  }
  if (contents.archives.empty() == contents.classes.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": has ", contents.classes.size(), " folders and ",
                     contents.archives.size(),
                     " tar files, expected a folder for each class, or tar "
                     "files"));
  }
  return contents;
}

}  // namespace

absl::StatusOr<std::vector<std::string>> ImageList::ReadClasses(
    const std::vector<std::string>& paths) {
  if (paths.empty()) return std::vector<std::string>();
  SLUICE_ASSIGN_OR_RETURN(Contents contents, ReadContents(paths.front()));
  return std::move(contents.classes);
}

absl::StatusOr<ImageList> ImageList::Read(
    const std::vector<std::string>& paths,
    const std::vector<std::string>& classes) {
  ImageList list;
  list.classes_ = classes;
  for (const std::string& path : paths) {
    SLUICE_ASSIGN_OR_RETURN(const Contents contents, ReadContents(path));
    if (contents.classes.empty() != classes.empty()) {
      return absl::InvalidArgumentError(absl::StrCat(
          path, ": has ",
          classes.empty() ? "class folders, expected tar files"
                          : "tar files, expected class folders",
          " as the first training path: their labels would have nothing to do "
          "with each other"));
    }
    for (const std::string& archive : contents.archives) {
      SLUICE_RETURN_IF_ERROR(list.AddArchive(archive));
    }
    for (const std::string& name : contents.classes) {
      const auto found = std::lower_bound(classes.begin(), classes.end(), name);
      if (found == classes.end() || *found != name) {
        return absl::InvalidArgumentError(absl::StrCat(
            path, "/", Readable(name),
            ": is no class of the first training folder, which has ",
            classes.size(), " (", Readable(classes.front()), " to ",
            Readable(classes.back()), ")"));
      }
      SLUICE_RETURN_IF_ERROR(
          list.AddClassFolder(absl::StrCat(path, "/", name),
                              static_cast<int>(found - classes.begin())));
    }
  }
  return list;
}

absl::Status ImageList::AddClassFolder(const std::string& folder, int label) {
  containers_.push_back({.path = folder});
  const int64_t before = size();
  SLUICE_RETURN_IF_ERROR(AddFolderBelow("", label, 0));
  if (size() > before) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(Readable(folder),
                   ": has no .jpg or .jpeg file, expected "
                   "the images of a class"));
}

absl::Status ImageList::AddFolderBelow(const std::string& below, int label,
                                       int depth) {
  const std::string folder = absl::StrCat(containers_.back().path, "/", below);
  if (depth > kMostDepth) {
    return absl::InvalidArgumentError(
        absl::StrCat(Readable(folder), ": expected at most ", kMostDepth,
                     " folders in each other"));
  }
  SLUICE_ASSIGN_OR_RETURN(const std::vector<Entry> entries, Entries(folder));
  for (const auto& [name, type] : entries) {
    const std::string inside = absl::StrCat(folder, name);
    const std::string extension = Extension(name);
    if (IsOtherImage(extension)) return RefuseOther(Readable(inside));
    if (IsJpeg(extension)) {
      if (type != std::filesystem::file_type::regular) {
        return absl::InvalidArgumentError(
            absl::StrCat(Readable(inside), ": is no file, expected an image"));
      }
      Add(label, absl::StrCat(below, name), 0, -1);
    } else if (type == std::filesystem::file_type::directory) {
      SLUICE_RETURN_IF_ERROR(
          AddFolderBelow(absl::StrCat(below, name, "/"), label, depth + 1));
    }
  }
  return absl::OkStatus();
}

absl::Status ImageList::AddArchive(const std::string& path) {
  SLUICE_ASSIGN_OR_RETURN(const InputFile archive, InputFile::Open(path));
  containers_.push_back({.path = path, .archive = archive.identity()});
  const int64_t before = size();
  std::string key;  // Of the sample whose members come.
  Sample sample;
  const auto end_sample = [&]() -> absl::Status {
    const Sample ended = std::exchange(sample, {});
    SLUICE_RETURN_IF_ERROR(CheckSample(path, key, ended));
    if (!ended.image.has_value()) return absl::OkStatus();
    Add(*ended.label, ended.image->name, ended.image->offset,
        ended.image->bytes);
    return absl::OkStatus();
  };
  SLUICE_RETURN_IF_ERROR(WalkTar(archive, [&](TarMember member) {
    const size_t slash = member.name.rfind('/');
    const size_t file = slash == std::string::npos ? 0 : slash + 1;
    const size_t dot = member.name.find('.', file);
    if (dot == file || dot == std::string::npos) return absl::OkStatus();
    const std::string of = member.name.substr(0, dot);
    const std::string kind = absl::AsciiStrToLower(member.name.substr(dot + 1));
    if (of != key) {
      SLUICE_RETURN_IF_ERROR(end_sample());
      key = of;
    }
    if (!member.whole &&
        (IsJpeg(kind) || IsOtherImage(kind) || kind == "cls")) {
      return absl::DataLossError(absl::StrCat(
          path, ": ", Readable(member.name),
          ": expected a file, is a link or a file with holes; tar "
          "--dereference --hard-dereference without --sparse stores files"));
    }
    if (IsJpeg(kind)) {
      if (sample.image.has_value()) {
        return absl::DataLossError(absl::StrCat(
            path, ": ", Readable(member.name), ": expected one image named ",
            Readable(key), ", there is ", Readable(sample.image->name)));
      }
      sample.image = std::move(member);
    } else if (IsOtherImage(kind)) {
      sample.other = std::move(member.name);
    } else if (kind == "cls") {
      if (sample.label.has_value()) {
        return absl::DataLossError(absl::StrCat(
            path, ": ", Readable(member.name), ": expected one label for ",
            Readable(key), ", this is another"));
      }
      SLUICE_ASSIGN_OR_RETURN(sample.label, ReadLabel(archive, member));
    } else if (IsJpeg(Extension(kind))) {
      sample.dotted_image = std::move(member.name);
    } else if (Extension(kind) == "cls") {
      sample.dotted_label = std::move(member.name);
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
  return absl::StrCat(container.path,
                      container.archive.has_value() ? ": " : "/",
                      Readable(NameOf(images_[i])));
}

absl::StatusOr<std::string> ImageList::Bytes(int64_t i) const {
  const Image& image = images_[i];
  const Container& container = containers_[image.container];
  SLUICE_ASSIGN_OR_RETURN(
      const InputFile file,
      InputFile::Open(container.archive.has_value()
                          ? container.path
                          : absl::StrCat(container.path, "/", NameOf(image))));
  if (container.archive.has_value() && file.identity() != *container.archive) {
    return absl::NotFoundError(absl::StrCat(  // What was listed is gone.
        container.path,
        ": has been replaced or written to since it was listed, expected the "
        "same file for as long as a process reads it"));
  }
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
// images in other places. A name has no newline here, which ends it, so that no
// two lists give the same text.
std::string ImageList::Digest() const {
  Sha256 sha;
  sha.Update(
      absl::StrCat(size(), " images of ", classes_.size(), " class folders\n"));
  for (const std::string& name : classes_) {
    sha.Update(absl::StrCat(InOneLine(name), "\n"));
  }
  for (const Image& image : images_) {
    sha.Update(absl::StrCat(image.label, " ", InOneLine(NameOf(image)), "\n"));
  }
  return sha.Hex();
}

namespace {

absl::StatusOr<ImageList> List(
    const google::protobuf::RepeatedPtrField<std::string>& paths,
    const proto::Jpeg& jpeg) {
  SLUICE_ASSIGN_OR_RETURN(
      const std::vector<std::string> classes,
      ImageList::ReadClasses({jpeg.train().begin(), jpeg.train().end()}));
  return ImageList::Read({paths.begin(), paths.end()}, classes);
}

}  // namespace

absl::StatusOr<ImageList> ListTrainingJpegs(const proto::Jpeg& jpeg) {
  return List(jpeg.train(), jpeg);
}

absl::StatusOr<ImageList> ListTestJpegs(const proto::Jpeg& jpeg) {
  return List(jpeg.test(), jpeg);
}

}  // namespace sluice
