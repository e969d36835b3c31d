#include "common/telemetry/json_text.h"

namespace sluice {

std::string JsonText(const nlohmann::ordered_json& json, int indent) {
  return json.dump(indent, ' ', /*ensure_ascii=*/false,
                   nlohmann::ordered_json::error_handler_t::replace);
}

std::string Utf8Text(const std::string& text) {
  return nlohmann::json::parse(JsonText(text)).get<std::string>();
}

}  // namespace sluice
