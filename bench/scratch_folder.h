#ifndef SLUICE_BENCH_SCRATCH_FOLDER_H_
#define SLUICE_BENCH_SCRATCH_FOLDER_H_

#include <string>

namespace sluice::bench {

// A folder that a benchmark fills. It goes with this object, and after a
// benchmark that ends in any other way.
//
// Make it before another thread starts: it forks.
class ScratchFolder {
 public:
  // An empty one that only this user reads, "folder/name_PID_" and letters.
  // Ends the benchmark where there can be none.
  ScratchFolder(const std::string& folder, const std::string& name);
  ~ScratchFolder();

  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  const std::string& path() const { return path_; }

 private:
  const std::string path_;
  const int lives_;  // A pipe's end, closed when this process ends.
};

}  // namespace sluice::bench

#endif  // SLUICE_BENCH_SCRATCH_FOLDER_H_
