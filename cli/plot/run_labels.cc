#include "cli/plot/run_labels.h"

#include <filesystem>
#include <set>

#include "absl/strings/str_cat.h"

namespace sluice {
namespace {

// "runs/a-1/" -> "a-1".
std::string NameOf(const std::string& folder) {
  const std::filesystem::path path =
      std::filesystem::path(folder).lexically_normal();
  return path.has_filename() ? path.filename().string()
                             : path.parent_path().filename().string();
}

// The first that comes twice; empty when all differ.
std::string Repeated(const std::vector<std::string>& labels) {
  std::set<std::string> seen;
  for (const std::string& label : labels) {
    if (!seen.insert(label).second) return label;
  }
  return "";
}

}  // namespace

absl::StatusOr<std::vector<std::string>> LabelsOf(
    const std::vector<std::string>& folders,
    const std::vector<std::string>& wanted) {
  std::vector<std::string> labels = wanted;
  if (labels.empty()) {
    for (const std::string& folder : folders) labels.push_back(NameOf(folder));
    if (!Repeated(labels).empty()) labels = folders;
  }
  if (labels.size() != folders.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat(labels.size(), " labels for ", folders.size(), " runs"));
  }
  const std::string repeated = Repeated(labels);
  if (!repeated.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("two runs are called '", repeated, "'"));
  }
  return labels;
}

}  // namespace sluice
