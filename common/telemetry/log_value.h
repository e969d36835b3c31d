#ifndef SLUICE_COMMON_TELEMETRY_LOG_VALUE_H_
#define SLUICE_COMMON_TELEMETRY_LOG_VALUE_H_

#include <string>

#include "absl/strings/string_view.h"

namespace sluice {

// `text` as the value of a log line's field, as logfmt has it: in quotes, with
// those inside and backslashes escaped, so that what a peer or a path is called
// is no field of its own. Control characters: common/telemetry/daemon_log.h.
std::string LogValue(absl::string_view text);

// The text of the LogValue that `line` begins with; what there is of it where
// the line was cut.
std::string FromLogValue(absl::string_view line);

}  // namespace sluice

#endif  // SLUICE_COMMON_TELEMETRY_LOG_VALUE_H_
