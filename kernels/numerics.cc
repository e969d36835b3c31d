#include "kernels/numerics.h"

#include <cfenv>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace sluice::kernels {

#if defined(__x86_64__)

namespace {
// MXCSR: all traps masked (bits 7-12), rounding 00 = nearest (bits 13-14),
// flush to zero (bit 15), denormals are zeros (bit 6), no flags raised.
constexpr unsigned kMode = 0x1f80 | 0x8000 | 0x0040;
constexpr unsigned kFlags = 0x3f;  // Exceptions seen so far.
}  // namespace

void SetNumericMode() { _mm_setcsr(kMode); }

bool NumericModeIsSet() { return (_mm_getcsr() & ~kFlags) == kMode; }

#else

void SetNumericMode() { std::fesetround(FE_TONEAREST); }

bool NumericModeIsSet() { return std::fegetround() == FE_TONEAREST; }

#endif

}  // namespace sluice::kernels
