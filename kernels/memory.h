#ifndef SLUICE_KERNELS_MEMORY_H_
#define SLUICE_KERNELS_MEMORY_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

// A device's memory, and the ways there and back.
namespace sluice::kernels {

// Memory of a device, aligned to 64 bytes, freed with the object.
// Thread-compatible.
class Buffer {
 public:
  virtual ~Buffer() = default;
  virtual void* data() = 0;
  float* floats() { return static_cast<float*>(data()); }
};

// Brings parts of arrays to the host, one after the other, beside operations
// that go on. None may outlive its device.
//
// Thread-compatible.
class Download {
 public:
  // Waits for what is under way.
  virtual ~Download() = default;

  // Begins to bring `bytes` from `device` as the operations called so far leave
  // them; later ones must not write there until the part was taken. The parts
  // since all were taken have at most PrepareDownload's bytes together.
  virtual absl::Status Begin(const void* device, int64_t bytes) = 0;
  // Writes the oldest part that was begun and not taken to `host`, and returns
  // true; false where it is still under way, unless it is to `wait`.
  // REQUIRES: there is one.
  virtual absl::StatusOr<bool> Take(void* host, bool wait) = 0;
  // Waits for what is under way, and forgets it.
  virtual absl::Status Drop() = 0;
};

// Brings arrays to the device, beside operations that go on. None may outlive
// its device.
//
// Thread-compatible.
class Upload {
 public:
  // Waits for what is under way.
  virtual ~Upload() = default;

  // What Send brings from now on comes when all operations called so far are
  // done: they may still use what it overwrites.
  virtual absl::Status Begin() = 0;
  // Operations called from now on find the bytes at `device`; those called
  // since Begin do not use it. `host` may change when it returns.
  virtual absl::Status Send(const void* host, void* device, int64_t bytes) = 0;
};

}  // namespace sluice::kernels

#endif  // SLUICE_KERNELS_MEMORY_H_
