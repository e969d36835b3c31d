#ifndef SLUICE_COMMON_TESTING_TAR_H_
#define SLUICE_COMMON_TESTING_TAR_H_

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include "common/status_macros.h"

namespace sluice {

// Files by their paths below a folder.
using FileMap = std::map<std::string, std::string>;

inline void WriteFiles(const std::filesystem::path& folder,
                       const FileMap& files) {
  for (const auto& [name, contents] : files) {
    const std::filesystem::path path = folder / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << contents;
  }
}

// Writes them as an archive, in the order of their names, with the machine's
// tar in a format that it calls "ustar", "gnu" or "pax".
inline void WriteTar(const std::string& archive, const FileMap& files,
                     const std::string& format = "pax") {
  const std::string folder = archive + ".files";
  WriteFiles(folder, files);
  const std::string command = "tar --create --sort=name --format=" + format +
                              " --file='" + archive + "' --directory='" +
                              folder + "' .";
  SLUICE_CHECK(std::system(command.c_str()) == 0);
  std::filesystem::remove_all(folder);
}

}  // namespace sluice

#endif  // SLUICE_COMMON_TESTING_TAR_H_
