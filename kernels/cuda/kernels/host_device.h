#ifndef SLUICE_KERNELS_CUDA_KERNELS_HOST_DEVICE_H_
#define SLUICE_KERNELS_CUDA_KERNELS_HOST_DEVICE_H_

// Marks what nvcc compiles for the GPU and tests call on the host.
#if defined(__CUDACC__)
#define SLUICE_HOST_DEVICE __host__ __device__
#else
#define SLUICE_HOST_DEVICE
#endif

#endif  // SLUICE_KERNELS_CUDA_KERNELS_HOST_DEVICE_H_
