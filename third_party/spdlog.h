#ifndef SLUICE_THIRD_PARTY_SPDLOG_H_
#define SLUICE_THIRD_PARTY_SPDLOG_H_

#include "fmt/format.h"
#include "spdlog/spdlog.h"  // IWYU pragma: export

// libfmt has all of formatting, but fmt 9's headers do not say so: each source
// that logs would compile it again, for two seconds and 88 KB.
#if FMT_VERSION < 100000
extern template void fmt::detail::vformat_to(
    fmt::detail::buffer<char>&, fmt::string_view,
    fmt::basic_format_args<fmt::buffer_context<char>>, fmt::detail::locale_ref);
#endif

#endif  // SLUICE_THIRD_PARTY_SPDLOG_H_
