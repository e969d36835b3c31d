// An archive is a sequence of blocks of 512 bytes: a header, then the member's
// bytes, filled up to whole blocks. Two blocks of zeros end it. What does not
// fit in a header stands in a member of its own before it: a GNU name ('L') as
// it is, a pax header ('x') as lines such as "18 path=train/a.jpg\n", each
// beginning with its own length.
#include "common/formats/tar_file.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "common/status_macros.h"

namespace sluice {
namespace {

constexpr int64_t kBlock = 512;
constexpr int64_t kMostExtension = 64 << 10;  // Bytes of a name or pax header.
// From an archive's end on: a record of GNU tar has 10 KiB unless it is told
// another size.
constexpr int64_t kMostRest = 1 << 20;

struct Field {
  int at;
  int bytes;
};
constexpr Field kName = {0, 100};
constexpr Field kSize = {124, 12};
constexpr Field kChecksum = {148, 8};
constexpr Field kMagic = {257, 6};  // "ustar" and NUL, or "ustar" and a space.
constexpr Field kPrefix = {345, 155};
constexpr int kType = 156;

using Header = std::array<char, kBlock>;

bool IsZero(const Header& block) {
  return std::all_of(block.begin(), block.end(),
                     [](char c) { return c == '\0'; });
}

absl::string_view Text(const Header& header, Field field) {
  const absl::string_view all(header.data() + field.at, field.bytes);
  return all.substr(0, all.find('\0'));
}

// Octal digits, or as GNU writes what does not fit: a first byte of 0x80, then
// the number's bytes.
std::optional<int64_t> Number(const Header& header, Field field) {
  if (header[field.at] == '\x80') {
    uint64_t value = 0;
    for (int i = 1; i < field.bytes; ++i) {
      if (value >> 54 != 0) return std::nullopt;
      value = value << 8 | static_cast<uint8_t>(header[field.at + i]);
    }
    return static_cast<int64_t>(value);
  }
  const absl::string_view digits =
      absl::StripAsciiWhitespace(Text(header, field));
  int64_t value = 0;
  for (const char digit : digits) {
    if (digit < '0' || digit > '7') return std::nullopt;
    value = value * 8 + (digit - '0');
  }
  return value;
}

// The sum of the header's bytes, with blanks where the sum itself stands.
bool ChecksumIsRight(const Header& header) {
  int64_t sum = 0;
  for (int i = 0; i < kBlock; ++i) {
    const bool blank = i >= kChecksum.at && i < kChecksum.at + kChecksum.bytes;
    sum += blank ? ' ' : static_cast<uint8_t>(header[i]);
  }
  return Number(header, kChecksum) == sum;
}

std::string NameOf(const Header& header) {
  const absl::string_view name = Text(header, kName);
  // GNU keeps times where ustar has the prefix.
  const bool ustar =
      absl::string_view(header.data() + kMagic.at, kMagic.bytes) ==
      absl::string_view("ustar\0", kMagic.bytes);
  const absl::string_view prefix =
      ustar ? Text(header, kPrefix) : absl::string_view();
  return prefix.empty() ? std::string(name) : absl::StrCat(prefix, "/", name);
}

// What the members before a header say of it.
struct Extension {
  std::string name;  // Empty: none.
  std::optional<int64_t> bytes;
  bool sparse = false;  // A file with holes, of which only the rest is here.
};

// Takes what Extension has out of a pax header; false if it is none.
bool ReadPax(absl::string_view text, Extension* extension) {
  while (!text.empty()) {
    const size_t blank = text.find(' ');
    int64_t length = 0;
    if (blank == absl::string_view::npos ||
        !absl::SimpleAtoi(text.substr(0, blank), &length) ||
        length <= static_cast<int64_t>(blank) + 1 ||
        length > static_cast<int64_t>(text.size())) {
      return false;
    }
    absl::string_view line = text.substr(blank + 1, length - blank - 1);
    text.remove_prefix(length);
    if (!absl::ConsumeSuffix(&line, "\n")) return false;
    if (absl::ConsumePrefix(&line, "GNU.sparse.name=")) {
      extension->name = std::string(line);
      extension->sparse = true;
    } else if (absl::ConsumePrefix(&line, "path=")) {
      if (!extension->sparse) extension->name = std::string(line);
    } else if (absl::ConsumePrefix(&line, "size=")) {
      int64_t bytes = 0;
      if (!absl::SimpleAtoi(line, &bytes) || bytes < 0) return false;
      extension->bytes = bytes;
    }
  }
  return true;
}

// A walk over one archive's headers.
class Walk {
 public:
  explicit Walk(const InputFile& archive) : archive_(archive) {}

  // The next member that is no folder; nullopt at the end.
  absl::StatusOr<std::optional<TarMember>> Next() {
    Extension extension;
    while (true) {
      SLUICE_ASSIGN_OR_RETURN(const Header header, ReadHeader());
      if (IsZero(header)) break;
      const std::optional<int64_t> stated = Number(header, kSize);
      if (!ChecksumIsRight(header) || !stated.has_value()) {
        return Error("expected a tar header");
      }
      const char type = header[kType];
      // K: a link's long target, which nobody asks for.
      const bool extends = type == 'L' || type == 'K' || type == 'x';
      const int64_t bytes =
          extends ? *stated : extension.bytes.value_or(*stated);
      const int64_t begin = at_ + kBlock;
      if (bytes > archive_.size() - begin) {
        return Error(absl::StrCat("a member of ", bytes,
                                  " bytes begins, the archive has ",
                                  archive_.size(), " bytes"));
      }
      if (extends) {
        SLUICE_RETURN_IF_ERROR(Extend(type, begin, bytes, &extension));
      }
      at_ = begin + (bytes + kBlock - 1) / kBlock * kBlock;
      if (extends || type == 'g') continue;
      const Extension given = std::exchange(extension, {});
      if (type == '5') continue;
      const bool file = type == '0' || type == '\0' || type == '7';
      return TarMember{given.name.empty() ? NameOf(header) : given.name, begin,
                       bytes, file && !given.sparse};
    }
    SLUICE_RETURN_IF_ERROR(CheckRest());
    return std::nullopt;
  }

 private:
  absl::Status Error(absl::string_view what) const {
    return absl::DataLossError(
        absl::StrCat(archive_.path(), ": at byte ", at_, ": ", what));
  }

  // What is behind the end is there to fill a record, and zeros. Otherwise
  // another archive follows, or not all of this one has come.
  absl::Status CheckRest() {
    if (archive_.size() - at_ > kMostRest) {
      return Error(absl::StrCat(
          "the archive ends, and ", archive_.size() - at_,
          " bytes follow, expected at most ", kMostRest,
          ": it may have been copied in part, or joined with another"));
    }
    Header block;
    for (; archive_.size() - at_ >= kBlock; at_ += kBlock) {
      SLUICE_RETURN_IF_ERROR(archive_.ReadAt(at_, kBlock, block.data()));
      if (IsZero(block)) continue;
      return Error(
          "expected zeros behind the archive's end; to join archives, use tar "
          "--concatenate");
    }
    return absl::OkStatus();
  }

  absl::StatusOr<Header> ReadHeader() {
    if (archive_.size() - at_ < kBlock) {
      return Error(
          "expected a tar header, or the zeros at an archive's end; the file "
          "ends: it may be cut short");
    }
    Header header;
    SLUICE_RETURN_IF_ERROR(archive_.ReadAt(at_, kBlock, header.data()));
    return header;
  }

  absl::Status Extend(char type, int64_t begin, int64_t bytes,
                      Extension* extension) {
    if (bytes > kMostExtension) {
      return Error(absl::StrCat("a name or pax header has ", bytes,
                                " bytes, expected at most ", kMostExtension));
    }
    std::string text(bytes, '\0');
    SLUICE_RETURN_IF_ERROR(archive_.ReadAt(begin, bytes, text.data()));
    if (type == 'K') return absl::OkStatus();
    if (type == 'L') {
      extension->name = text.substr(0, text.find('\0'));
    } else if (!ReadPax(text, extension)) {
      return Error("expected a pax header");
    }
    return absl::OkStatus();
  }

  const InputFile& archive_;
  int64_t at_ = 0;
};

}  // namespace

absl::Status WalkTar(const InputFile& archive,
                     const std::function<absl::Status(TarMember)>& use) {
  Walk walk(archive);
  while (true) {
    SLUICE_ASSIGN_OR_RETURN(std::optional<TarMember> member, walk.Next());
    if (!member.has_value()) return absl::OkStatus();
    SLUICE_RETURN_IF_ERROR(use(*std::move(member)));
  }
}

}  // namespace sluice
