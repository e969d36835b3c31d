#ifndef SLUICE_COMMON_VERSION_H_
#define SLUICE_COMMON_VERSION_H_

namespace sluice {

// Of the daemons, the tool and the Python package together
// (python/sluice/__init__.py has it, too).
inline constexpr char kVersion[] = "0.1.0";

}  // namespace sluice

#endif  // SLUICE_COMMON_VERSION_H_
