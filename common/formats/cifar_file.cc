// A file is a sequence of records without a header, so only its size can tell
// that it is complete. A CIFAR-10 record has 1 + 3072 bytes: the label, then
// the red, green and blue planes of 32 x 32. A CIFAR-100 record has 2 + 3072
// bytes: the coarse label, the fine label, then the planes.
#include "common/formats/cifar_file.h"

#include "absl/strings/str_cat.h"
#include "common/files/input_file.h"
#include "common/status_macros.h"

namespace sluice {
namespace {

// The layout of one record: its label bytes, then its pixels.
struct Format {
  const char* name;
  int label_bytes;
  int label_at;  // Index of the label byte that is used.
  int classes;

  int64_t record_bytes() const { return label_bytes + kCifarImageBytes; }
};

Format FormatOf(proto::Cifar::Classes classes) {
  switch (classes) {
    case proto::Cifar::FINE:
      return {"CIFAR-100", 2, 1, 100};
    case proto::Cifar::COARSE:
      return {"CIFAR-100", 2, 0, 20};
    default:
      return {"CIFAR-10", 1, 0, 10};
  }
}

absl::StatusOr<int64_t> CountImages(const InputFile& file,
                                    const Format& format) {
  const int64_t record = format.record_bytes();
  if (file.size() > 0 && file.size() % record == 0) {
    return file.size() / record;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      file.path(), ": has ", file.size(), " bytes, expected a multiple of ",
      record, " (", format.name, ", ", format.label_bytes, " + ",
      kCifarImageBytes, " bytes an image)"));
}

}  // namespace

int CifarClasses(proto::Cifar::Classes classes) {
  return FormatOf(classes).classes;
}

absl::StatusOr<int64_t> CountCifarImages(const std::string& path,
                                         proto::Cifar::Classes classes) {
  SLUICE_ASSIGN_OR_RETURN(const InputFile file, InputFile::Open(path));
  return CountImages(file, FormatOf(classes));
}

absl::Status AppendCifarFile(const std::string& path,
                             proto::Cifar::Classes classes,
                             CifarImages* images) {
  SLUICE_ASSIGN_OR_RETURN(const InputFile file, InputFile::Open(path));
  const Format format = FormatOf(classes);
  SLUICE_ASSIGN_OR_RETURN(const int64_t count, CountImages(file, format));
  std::vector<uint8_t> bytes(file.size());
  SLUICE_RETURN_IF_ERROR(file.ReadAt(0, file.size(), bytes.data()));
  for (int64_t i = 0; i < count; ++i) {
    const uint8_t* record = bytes.data() + i * format.record_bytes();
    const int label = record[format.label_at];
    if (label >= format.classes) {
      return absl::DataLossError(absl::StrCat(
          path, ": image ", i, " has label ", label, ", expected 0 to ",
          format.classes - 1, " (", format.name, ")"));
    }
    images->labels.push_back(static_cast<uint8_t>(label));
    const uint8_t* pixels = record + format.label_bytes;
    images->pixels.insert(images->pixels.end(), pixels,
                          pixels + kCifarImageBytes);
  }
  return absl::OkStatus();
}

}  // namespace sluice
