#ifndef SLUICE_KERNELS_REFERENCE_REFERENCE_DEVICE_H_
#define SLUICE_KERNELS_REFERENCE_REFERENCE_DEVICE_H_

#include <memory>

#include "kernels/device.h"

namespace sluice::kernels {

// Every operation as plain loops on one thread (the headers beside this one):
// slow, the specification that other devices are tested against.
std::unique_ptr<Device> MakeReferenceDevice();

}  // namespace sluice::kernels

#endif  // SLUICE_KERNELS_REFERENCE_REFERENCE_DEVICE_H_
