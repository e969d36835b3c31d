#include "common/run_id.h"

#include <unistd.h>

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/random.h"

namespace sluice {

std::string DrawRunId(absl::Time now) {
  return absl::StrCat(
      absl::Hex(Random(absl::ToUnixNanos(now), "run id").Uint64(getpid()),
                absl::kZeroPad16));
}

absl::Status CheckRunId(const std::string& id) {
  constexpr size_t kMost = 64;
  const bool plain = std::all_of(id.begin(), id.end(), [](char c) {
    return absl::ascii_isalnum(c) ||
           absl::string_view("._-").find(c) != absl::string_view::npos;
  });
  if (plain && !id.empty() && id.size() <= kMost) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--run-id: must be 1 to ", kMost,
                   " letters, digits, '.', '_' or '-', is \"", id, "\""));
}

}  // namespace sluice
