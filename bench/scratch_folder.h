#ifndef SLUICE_BENCH_SCRATCH_FOLDER_H_
#define SLUICE_BENCH_SCRATCH_FOLDER_H_

#include <string>

namespace sluice::bench {

// A folder that a benchmark fills. It goes with this object, and after a
// benchmark that ends by std::exit, SIGINT or SIGTERM.
//
// Make the first one before another thread starts; else not thread-safe.
class ScratchFolder {
 public:
  // An empty one, "folder/name_PID". Ends the benchmark where there can be
  // none.
  ScratchFolder(const std::string& folder, const std::string& name);
  ~ScratchFolder();

  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  const std::string& path() const { return path_; }

 private:
  const std::string path_;
};

}  // namespace sluice::bench

#endif  // SLUICE_BENCH_SCRATCH_FOLDER_H_
