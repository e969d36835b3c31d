#include "common/telemetry/log_value.h"

#include <string>

#include "absl/strings/string_view.h"

namespace sluice {

std::string LogValue(absl::string_view text) {
  std::string value = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') value += '\\';
    value += c;
  }
  value += '"';
  return value;
}

std::string FromLogValue(absl::string_view line) {
  std::string text;
  for (size_t i = 1; i < line.size() && line[i] != '"'; ++i) {
    if (line[i] == '\\' && i + 1 < line.size()) ++i;
    text += line[i];
  }
  return text;
}

}  // namespace sluice
