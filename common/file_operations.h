#ifndef SLUICE_COMMON_FILE_OPERATIONS_H_
#define SLUICE_COMMON_FILE_OPERATIONS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace sluice {

// What files ask of the operating system, a method for each operation, so that
// a test can put in its place one that fails at any of them or does nothing
// from some operation on, as after a kill.
//
// Errors, in all methods: kUnavailable, naming the path, the operation and the
// system's reason, which says nothing of what the disk holds;
// kResourceExhausted, with the same words, where the disk or the user's share
// of it is full: there may be room again. All block.
//
// Thread-safe.
class FileOperations {
 public:
  virtual ~FileOperations() = default;

  // The system's. Lives for ever.
  static FileOperations* Real();

  // Opens `path` for writing; it is empty then, whatever it held. The caller
  // closes the file. `path` below is for the message.
  virtual absl::StatusOr<int> Create(const std::string& path);
  // Creates `path` to append to it. kAlreadyExists: it is there, whoever has
  // made it; of any number of callers one succeeds.
  virtual absl::StatusOr<int> CreateNew(const std::string& path);
  // Cuts the file down to its first `bytes`.
  virtual absl::Status Truncate(int file, const std::string& path,
                                int64_t bytes);
  // Appends all of `data`; after an error some of it.
  virtual absl::Status Write(int file, const std::string& path,
                             absl::string_view data);
  // Returns when the file's bytes are on the disk.
  virtual absl::Status Sync(int file, const std::string& path);
  virtual absl::Status Close(int file, const std::string& path);

  // `to` is replaced if it is there. kNotFound: there is no `from`.
  virtual absl::Status Rename(const std::string& from, const std::string& to);
  // Makes one folder; OK where it is there.
  virtual absl::Status MakeFolder(const std::string& path);
  // Returns when what the folder lists is on the disk.
  virtual absl::Status SyncFolder(const std::string& path);
  // Removes a file or an empty folder; OK where there is none.
  virtual absl::Status Remove(const std::string& path);

  // Opens `path` for reading; the caller closes it. kNotFound: the system says
  // that there is nothing of that name, which a cache may have told it.
  virtual absl::StatusOr<int> OpenToRead(const std::string& path);
  // Fills `to` from `offset` on, up to the file's end: how many bytes it is.
  virtual absl::StatusOr<int64_t> ReadAt(int file, const std::string& path,
                                         int64_t offset, absl::Span<char> to);
  // The names in a folder, in order. kNotFound as above.
  virtual absl::StatusOr<std::vector<std::string>> List(
      const std::string& folder);
};

// Whether it is certain that `folder` holds nothing of the name `name`, which
// opening it has just said: then OK, also where the folder itself is certainly
// missing. kUnavailable: the folder lists it, so that one of the two answers
// came from a stale cache; or cannot be listed.
absl::Status ProveMissing(const std::string& folder, const std::string& name,
                          FileOperations* files);

// The folder that `path` lies in; "." when it names none.
std::string FolderOf(const std::string& path);

}  // namespace sluice

#endif  // SLUICE_COMMON_FILE_OPERATIONS_H_
