// The mode is set through the umask, so that it also holds for files that
// libraries create. A folder needs the execute bit to be entered, so each read
// bit also allows the execute bit: "0640" gives the umask 0027, with which
// files become 0640 and folders 0750.
#include "common/files/file_mode.h"

#include <sys/stat.h>

#include <charconv>

#include "common/status_macros.h"

namespace sluice {
namespace {

constexpr int kOwner = 0600;
constexpr int kMost = 0666;
constexpr int kAll = 0777;

}  // namespace

std::optional<int> ParseFileMode(const std::string& mode) {
  int bits = 0;
  const char* end = mode.data() + mode.size();
  const auto parsed = std::from_chars(mode.data(), end, bits, 8);
  if (parsed.ec != std::errc() || parsed.ptr != end || bits < 0 ||
      (bits & ~kMost) != 0 || (bits & kOwner) != kOwner) {
    return std::nullopt;
  }
  return bits;
}

void LetRead(const std::string& mode) {
  const std::optional<int> bits = ParseFileMode(mode);
  SLUICE_CHECK(bits.has_value());
  const int enter = (*bits & 0444) >> 2;
  umask(static_cast<mode_t>(kAll & ~(*bits | enter)));
}

}  // namespace sluice
