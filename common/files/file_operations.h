#ifndef SLUICE_COMMON_FILES_FILE_OPERATIONS_H_
#define SLUICE_COMMON_FILES_FILE_OPERATIONS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace sluice {

// The operations on files that the operating system offers, one virtual method
// each. A test can replace them with a version that fails at any operation, or
// that does nothing from some operation on, as after a kill.
//
// Errors of all methods: kUnavailable, with the path, the operation and the
// system's reason; it says nothing about what is on the disk.
// kResourceExhausted, with the same words, if the disk or the user's quota is
// full; there may be room later. All methods block.
// Thread-safe.
class FileOperations {
 public:
  virtual ~FileOperations() = default;

  // The system's files. Never destroyed.
  static FileOperations* Real();

  // Creates or truncates `path` and opens it for writing. The caller closes the
  // file. In the methods below `path` is only for messages.
  virtual absl::StatusOr<int> Create(const std::string& path);
  // Creates `path` and opens it for appending. kAlreadyExists: it exists
  // already. Of any number of concurrent callers one succeeds.
  virtual absl::StatusOr<int> CreateNew(const std::string& path);
  // Truncates the file to `bytes`.
  virtual absl::Status Truncate(int file, const std::string& path,
                                int64_t bytes);
  // Appends all of `data`; after an error a part may have been written.
  virtual absl::Status Write(int file, const std::string& path,
                             absl::string_view data);
  // Returns once the file's bytes are on the disk.
  virtual absl::Status Sync(int file, const std::string& path);
  virtual absl::Status Close(int file, const std::string& path);
  // Marks an open file as one that is written here, until it is closed; not
  // where the file system has no locks.
  virtual void Hold(int file);
  // Whether it is marked so, by another process or this one.
  virtual bool IsHeld(const std::string& path);

  // Replaces `to` if it exists. kNotFound: `from` does not exist.
  virtual absl::Status Rename(const std::string& from, const std::string& to);
  // Creates one folder; OK if it exists.
  virtual absl::Status MakeFolder(const std::string& path);
  // Returns once the folder's entries are on the disk.
  virtual absl::Status SyncFolder(const std::string& path);
  // Removes a file or an empty folder; OK if it does not exist.
  virtual absl::Status Remove(const std::string& path);

  // Opens `path` for reading; the caller closes it. kNotFound: the system says
  // that it does not exist, possibly from a stale cache. kInvalidArgument: no
  // file can have this path, as "a.txt/". Does not wait for a writer of a FIFO.
  virtual absl::StatusOr<int> OpenToRead(const std::string& path);
  // Reads from `offset` until `to` is full or the file ends. Returns the bytes
  // read.
  virtual absl::StatusOr<int64_t> ReadAt(int file, const std::string& path,
                                         int64_t offset, absl::Span<char> to);
  // Whether a folder is there, or a link to one. kNotFound and kInvalidArgument
  // as above.
  virtual absl::StatusOr<bool> IsFolder(const std::string& path);
  // The names in a folder, sorted. kNotFound as above.
  virtual absl::StatusOr<std::vector<std::string>> List(
      const std::string& folder);
};

// Checks that `folder` really holds nothing called `name`, after opening it has
// said so. OK if that is certain, also because the folder itself is certainly
// missing. kUnavailable if the folder lists the name, so that one of the two
// answers came from a stale cache, or if the folder cannot be listed.
absl::Status ProveMissing(const std::string& folder, const std::string& name,
                          FileOperations* files);

// Makes a folder and its parents, as far as they are missing. kUnavailable: the
// system will not.
absl::Status MakeFolders(const std::string& path);

// The folder of `path`; "." if it names none.
std::string FolderOf(const std::string& path);

}  // namespace sluice

#endif  // SLUICE_COMMON_FILES_FILE_OPERATIONS_H_
