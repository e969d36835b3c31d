// A run must replay to the bit on any machine. So nothing here depends on
// state, on the order of calls, or on the C library's mathematics: numbers are
// Philox blocks, a pure function of (key, stream, index), and Normal uses only
// operations that IEEE 754 defines exactly (+, -, *, / and sqrt).
//
// Permutation(key, stream, 10), as an example: the next power of four is 16, so
// Encrypt permutes 0..15 with two halves of 2 bits. If it takes 3 to 12, which
// is not below 10, the result is encrypted again until it is. This is again a
// permutation, because it follows the cycle that 3 lies on.
#include "common/random.h"

#include <bit>
#include <cmath>

#include "common/status_macros.h"

namespace sluice {
namespace {

// FNV-1a. Philox mixes its counter thoroughly, so the hash only has to give
// different names different streams.
uint64_t HashText(absl::string_view text) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  }
  return hash;
}

// The natural logarithm of x in (0, 1), to about 1e-15, in plain arithmetic,
// because the C library's result differs in the last bit between processors.
// With x = m 2^e and m in [sqrt(1/2), sqrt(2)) it is e ln 2 + 2 artanh(s),
// where s = (m - 1) / (m + 1) and |s| < 0.172.
double Log(double x) {
  int exponent;
  double m = std::frexp(x, &exponent);
  if (m < 0.70710678118654752) {
    m *= 2;
    --exponent;
  }
  const double s = (m - 1) / (m + 1);
  const double s2 = s * s;
  double series = 0;
  for (int n = 19; n >= 1; n -= 2) series = series * s2 + 1.0 / n;
  return exponent * 0.69314718055994531 + 2 * s * series;
}

// Lower tail of the inverse normal distribution function, for p < 0.02425.
double NormalTail(double p) {
  const double q = std::sqrt(-2 * Log(p));
  return (((((-7.784894002430293e-03 * q - 3.223964580411365e-01) * q -
             2.400758277161838e+00) *
                q -
            2.549732539343734e+00) *
               q +
           4.374664141464968e+00) *
              q +
          2.938163982698783e+00) /
         ((((7.784695709041462e-03 * q + 3.224671290700398e-01) * q +
            2.445134137142996e+00) *
               q +
           3.754408661907416e+00) *
              q +
          1);
}

// Its centre, for 0.02425 <= p <= 0.97575.
double NormalCentre(double p) {
  const double q = p - 0.5;
  const double r = q * q;
  return (((((-3.969683028665376e+01 * r + 2.209460984245205e+02) * r -
             2.759285104469687e+02) *
                r +
            1.383577518672690e+02) *
               r -
           3.066479806614716e+01) *
              r +
          2.506628277459239e+00) *
         q /
         (((((-5.447609879822406e+01 * r + 1.615858368580409e+02) * r -
             1.556989798598866e+02) *
                r +
            6.680131188771972e+01) *
               r -
           1.328068155288572e+01) *
              r +
          1);
}

}  // namespace

Random::Random(uint64_t key, absl::string_view stream)
    : Random(key, HashText(stream)) {}

std::array<uint32_t, 4> Random::Block(uint64_t index) const {
  uint32_t c0 = static_cast<uint32_t>(index);
  uint32_t c1 = static_cast<uint32_t>(index >> 32);
  uint32_t c2 = static_cast<uint32_t>(stream_);
  uint32_t c3 = static_cast<uint32_t>(stream_ >> 32);
  uint32_t k0 = static_cast<uint32_t>(key_);
  uint32_t k1 = static_cast<uint32_t>(key_ >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{0xD2511F53} * c0;
    const uint64_t p1 = uint64_t{0xCD9E8D57} * c2;
    c0 = static_cast<uint32_t>(p1 >> 32) ^ c1 ^ k0;
    c1 = static_cast<uint32_t>(p1);
    c2 = static_cast<uint32_t>(p0 >> 32) ^ c3 ^ k1;
    c3 = static_cast<uint32_t>(p0);
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  return {c0, c1, c2, c3};
}

uint64_t Random::Uint64(uint64_t index) const {
  // A block has two numbers.
  const std::array<uint32_t, 4> block = Block(index / 2);
  const size_t at = index % 2 * 2;
  return uint64_t{block[at + 1]} << 32 | block[at];
}

double Random::Uniform(uint64_t index) const {
  return static_cast<double>(Uint64(index) >> 11) * 0x1p-53;
}

float Random::UniformFloat(uint64_t index) const {
  // A block has four numbers.
  const uint32_t bits = Block(index / 4)[index % 4];
  return static_cast<float>(bits >> 8) * 0x1p-24f;
}

double Random::Normal(uint64_t index) const {
  // In the open interval (0, 1) and symmetric around 1/2.
  const double p = (static_cast<double>(Uint64(index) >> 12) + 0.5) * 0x1p-52;
  constexpr double kTail = 0.02425;
  if (p < kTail) return NormalTail(p);
  if (p > 1 - kTail) return -NormalTail(1 - p);
  return NormalCentre(p);
}

Permutation::Permutation(uint64_t key, uint64_t stream, uint64_t size)
    : random_(key, stream),
      size_(size),
      half_bits_((std::bit_width(size - 1) + 1) / 2) {
  SLUICE_CHECK(size >= 1);
}

uint64_t Permutation::Encrypt(uint64_t x) const {
  const uint64_t mask = (uint64_t{1} << half_bits_) - 1;
  uint64_t left = x >> half_bits_;
  uint64_t right = x & mask;
  for (uint64_t round = 0; round < 4; ++round) {
    const uint64_t f = random_.Block(round << 32 | right)[0] & mask;
    const uint64_t next = left ^ f;
    left = right;
    right = next;
  }
  return left << half_bits_ | right;
}

uint64_t Permutation::operator()(uint64_t index) const {
  // This ends: `index` itself is below size_ and lies on the same cycle.
  do {
    index = Encrypt(index);
  } while (index >= size_);
  return index;
}

}  // namespace sluice
