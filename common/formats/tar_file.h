#ifndef SLUICE_COMMON_FORMATS_TAR_FILE_H_
#define SLUICE_COMMON_FORMATS_TAR_FILE_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "common/files/input_file.h"

namespace sluice {

// A member of a tar archive that is no folder.
struct TarMember {
  std::string name;
  int64_t offset = 0;  // Of its first byte in the archive.
  int64_t bytes = 0;
  // Its bytes are there, in one piece: not those of a link (as GNU tar stores
  // the second name of a file), a file with holes or a device.
  bool whole = true;
};

// Calls `use` with each member of an archive that is not compressed, in order,
// but for folders. Reads the headers alone. The formats are ustar, GNU's and
// pax (POSIX.1-2001), so names may be long and files larger than 8 GiB. An
// error of `use` ends the walk and is returned. kDataLoss names the archive and
// the position of what is no header, a member that ends behind the archive, a
// name above 64 KiB, or what follows the archive's end but for 1 MiB of zeros.
absl::Status WalkTar(const InputFile& archive,
                     const std::function<absl::Status(TarMember)>& use);

}  // namespace sluice

#endif  // SLUICE_COMMON_FORMATS_TAR_FILE_H_
