#ifndef SLUICE_KERNELS_ACCELERATOR_H_
#define SLUICE_KERNELS_ACCELERATOR_H_

#include <cstdint>
#include <memory>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/device.h"

namespace sluice::kernels {

// Brings parts of arrays to the host, one after the other, beside operations
// that go on. None may outlive its device.
//
// Thread-compatible.
class Download {
 public:
  // Waits for what is under way.
  virtual ~Download() = default;

  // Begins to bring `bytes` from `device` as the operations called so far leave
  // them; later ones must not write there until the part was taken. Until then
  // `host` may hold anything. The parts since all were taken have at most
  // PrepareDownload's bytes together. kResourceExhausted as Allocate.
  virtual absl::Status Begin(const void* device, void* host, int64_t bytes) = 0;
  // Takes the oldest part that was begun and not taken: returns true when its
  // `host` holds it; false where it is still under way, unless it is to `wait`.
  // REQUIRES: there is one.
  virtual absl::StatusOr<bool> Take(bool wait) = 0;
  // Waits for what is under way, and forgets it: nothing is written any more.
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
  // since Begin do not use it. `host` may change when it returns; registered
  // memory, when one of these operations has been waited for.
  virtual absl::Status Send(const void* host, void* device, int64_t bytes) = 0;
};

// Memory of the host which the device reads and writes by itself, as long as
// this exists: what is uploaded from it and downloaded to it is not copied by
// the host's processor. It must not outlive its device, nor that memory.
class Registration {
 public:
  // Waits for what is under way.
  virtual ~Registration() = default;
};

// Operations that were recorded, to be run again with the arrays they had, and
// with what these hold by then. It must not outlive its device, nor be run once
// one of the arrays or operations is gone.
//
// Thread-compatible.
class Recording {
 public:
  virtual ~Recording() = default;
  // As the operations, one after the other.
  virtual absl::Status Run() = 0;
};

// A device with a memory and a queue of its own: calls of operations return
// before they are done. All that the host does beside them is here, so that
// whoever computes on the CPU meets none of it.
//
// Thread-compatible.
class Accelerator : public Device {
 public:
  Accelerator* accelerator() final { return this; }

  // `host` may change when it returns. Copies fail with kInternal.
  virtual absl::Status CopyToDevice(const void* host, void* device,
                                    int64_t bytes) = 0;
  // Waits until `host` holds the bytes.
  virtual absl::Status CopyToHost(const void* device, void* host,
                                  int64_t bytes) = 0;
  virtual absl::StatusOr<std::unique_ptr<Upload>> PrepareUpload() = 0;
  // For parts of up to `bytes` together.
  virtual absl::StatusOr<std::unique_ptr<Download>> PrepareDownload(
      int64_t bytes) = 0;
  // nullptr where the system refuses: then these bytes travel as any others.
  virtual std::unique_ptr<Registration> Register(void* host, int64_t bytes) = 0;
  // Waits until all operations are done and reports their errors.
  virtual absl::Status Synchronize() = 0;
  // To be called between the layers of a pass: waits while more than the last
  // `ahead` stretches between two such calls are not done, so that whoever
  // stops calling operations soon finds the device idle.
  // REQUIRES: 1 <= ahead <= 4.
  virtual absl::Status Pace(int ahead) = 0;
  // What `calls` calls, without running it: operations that do not wait, each
  // of which has run before with as many samples, and nothing else of this
  // device. Where anything cannot be recorded: why, and nothing has changed.
  virtual absl::StatusOr<std::unique_ptr<Recording>> Record(
      absl::FunctionRef<absl::Status()> calls) = 0;
};

}  // namespace sluice::kernels

#endif  // SLUICE_KERNELS_ACCELERATOR_H_
