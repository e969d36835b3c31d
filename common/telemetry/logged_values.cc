#include "common/telemetry/logged_values.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace sluice {
namespace {

bool IsName(absl::string_view name) {
  return !name.empty() && name.size() <= kLongestLoggedName &&
         std::ranges::all_of(name, [](char c) {
           return absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
                  absl::StrContains("_./-", c);
         });
}

}  // namespace

absl::Status AddLogged(absl::string_view name, double value,
                       LoggedValues* values) {
  if (!IsName(name)) {
    return absl::InvalidArgumentError(
        absl::StrCat("a value logged as \"", absl::Utf8SafeCEscape(name),
                     "\", expected a name of 1 to ", kLongestLoggedName,
                     " letters, digits and _ . / -"));
  }
  const auto found = values->find(std::string(name));
  if (found != values->end()) {
    found->second = value;
    return absl::OkStatus();
  }
  if (values->size() >= kMostLoggedNames) {
    return absl::InvalidArgumentError(absl::StrCat("a value logged as \"", name,
                                                   "\", expected at most ",
                                                   kMostLoggedNames, " names"));
  }
  values->emplace(name, value);
  return absl::OkStatus();
}

}  // namespace sluice
