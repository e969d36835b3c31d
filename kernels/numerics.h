#ifndef SLUICE_KERNELS_NUMERICS_H_
#define SLUICE_KERNELS_NUMERICS_H_

namespace sluice::kernels {

// Sets how the calling thread computes with floats: round to nearest even,
// denormal inputs and results count as zero (they are slow, and too small to
// matter), no traps. Every compute thread calls it, so that the same
// inputs give the same bits in each. Cheap.
void SetNumericMode();

// Whether the calling thread computes as SetNumericMode says.
bool NumericModeIsSet();

}  // namespace sluice::kernels

#endif  // SLUICE_KERNELS_NUMERICS_H_
