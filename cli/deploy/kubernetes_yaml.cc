#include "cli/deploy/kubernetes_yaml.h"

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/telemetry/json_text.h"
#include "yaml-cpp/yaml.h"

namespace sluice {
namespace {

using Json = nlohmann::ordered_json;

// Whether YAML reads the word as a string: not as a number, a truth or nothing.
bool IsPlain(absl::string_view text) {
  static constexpr absl::string_view kOthers[] = {
      "true", "false", "yes", "no", "on", "off", "null", "y", "n"};
  return !text.empty() && text.size() < 60 && absl::ascii_isalpha(text[0]) &&
         absl::c_all_of(text,
                        [](char c) {
                          return absl::ascii_isalnum(c) || c == '.' ||
                                 c == '_' || c == '/' || c == '-';
                        }) &&
         !absl::c_linear_search(kOthers, absl::AsciiStrToLower(text));
}

// Whether it has U+0085, U+2028 or U+2029, each of which YAML 1.1 takes for the
// end of a line.
bool HasOtherBreak(absl::string_view text) {
  return absl::StrContains(text, "\xc2\x85") ||
         absl::StrContains(text, "\xe2\x80\xa8") ||
         absl::StrContains(text, "\xe2\x80\xa9");
}

// Whether a literal block holds the text: it cannot begin with a blank, and has
// no place for control characters.
bool IsBlock(absl::string_view text) {
  return absl::StrContains(text, '\n') && !absl::ascii_isspace(text[0]) &&
         !HasOtherBreak(text) && absl::EndsWith(text, "\n") &&
         !absl::EndsWith(text, "\n\n") && absl::c_none_of(text, [](char c) {
           return absl::ascii_iscntrl(c) && c != '\n';
         });
}

void Emit(const Json& value, YAML::Emitter* out) {
  if (value.is_object()) {
    *out << YAML::BeginMap;
    for (const auto& [key, member] : value.items()) {
      *out << YAML::Key;
      Emit(key, out);
      *out << YAML::Value;
      Emit(member, out);
    }
    *out << YAML::EndMap;
  } else if (value.is_array()) {
    *out << YAML::BeginSeq;
    for (const Json& element : value) Emit(element, out);
    *out << YAML::EndSeq;
  } else if (value.is_string()) {
    const auto text = value.get<std::string>();
    if (HasOtherBreak(text)) *out << YAML::EscapeNonAscii;
    if (IsBlock(text)) {
      *out << YAML::Literal;
    } else if (!IsPlain(text)) {
      *out << YAML::DoubleQuoted;
    }
    *out << text;
  } else {
    *out << JsonText(value);  // A number or a truth.
  }
}

}  // namespace

std::string KubernetesYaml(absl::string_view comment,
                           const std::vector<Json>& objects) {
  std::string text;
  for (const absl::string_view line : absl::StrSplit(comment, '\n')) {
    absl::StrAppend(&text, "# ", line, "\n");
  }
  for (const Json& object : objects) {
    YAML::Emitter out;
    Emit(object, &out);
    absl::StrAppend(&text, "---\n", out.c_str(), "\n");
  }
  return text;
}

}  // namespace sluice
