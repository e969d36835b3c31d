#ifndef SLUICE_PS_SERVER_LIVE_PAGE_FILES_H_
#define SLUICE_PS_SERVER_LIVE_PAGE_FILES_H_

#include "absl/strings/string_view.h"

namespace sluice {

// The files that the live page consists of, in the binary.
extern const absl::string_view kPageHtml;
extern const absl::string_view kPageCss;
extern const absl::string_view kPageJs;
extern const absl::string_view kChartJs;

}  // namespace sluice

#endif  // SLUICE_PS_SERVER_LIVE_PAGE_FILES_H_
