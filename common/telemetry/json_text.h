#ifndef SLUICE_COMMON_TELEMETRY_JSON_TEXT_H_
#define SLUICE_COMMON_TELEMETRY_JSON_TEXT_H_

#include <string>

#include "nlohmann/json.hpp"

namespace sluice {

// `json` as text, on one line or, from an `indent` of 0 on, over several. Paths
// and messages may hold any bytes: those that are no UTF-8 are replaced, where
// the library's own dump() throws.
std::string JsonText(const nlohmann::ordered_json& json, int indent = -1);

// `text` with what is no UTF-8 replaced in the same way: protobuf parses no
// message that holds such a string.
std::string Utf8Text(const std::string& text);

}  // namespace sluice

#endif  // SLUICE_COMMON_TELEMETRY_JSON_TEXT_H_
