#include "common/job/tensor_groups.h"

#include <fnmatch.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace sluice {
namespace {

void SetFactors(const proto::TensorGroup& group, TensorSpec* tensor) {
  tensor->factors.rate = group.learning_rate_factor();
  if (group.has_weight_decay_factor()) {
    tensor->factors.decay = group.weight_decay_factor();
  }
}

// A pattern of fnmatch, to which brackets and backslashes are more than
// themselves.
std::string Escaped(const std::string& pattern) {
  return absl::StrReplaceAll(pattern, {{"[", R"(\[)"}, {R"(\)", R"(\\)"}});
}

}  // namespace

std::vector<std::string> ApplyTensorGroups(const proto::Optimizer& optimizer,
                                           std::vector<TensorSpec>* tensors) {
  std::vector<std::string> violations;
  const auto trained = std::find_if_not(
      tensors->begin(), tensors->end(),
      [](const TensorSpec& tensor) { return tensor.is_statistic(); });
  // By tensor, the pattern that has it: "optimizer.group[0].tensor[1]".
  std::vector<std::string> taken_by(tensors->size());
  for (int g = 0; g < optimizer.group_size(); ++g) {
    const proto::TensorGroup& group = optimizer.group(g);
    for (int p = 0; p < group.tensor_size(); ++p) {
      const std::string path =
          absl::StrCat("optimizer.group[", g, "].tensor[", p, "]");
      const std::string pattern = Escaped(group.tensor(p));
      bool fits = false;
      for (size_t i = 0; i < tensors->size(); ++i) {
        TensorSpec& tensor = (*tensors)[i];
        if (tensor.is_statistic() ||
            fnmatch(pattern.c_str(), tensor.name.c_str(), 0) != 0) {
          continue;
        }
        fits = true;
        if (!taken_by[i].empty()) {
          violations.push_back(absl::StrCat(path, ": must not name ",
                                            tensor.name, ", which ",
                                            taken_by[i], " does"));
          continue;
        }
        taken_by[i] = path;
        SetFactors(group, &tensor);
      }
      if (fits) continue;
      violations.push_back(absl::StrCat(
          path, ": must name a trained tensor, is \"", group.tensor(p), "\"; ",
          trained == tensors->end()
              ? "the model has none"
              : absl::StrCat("`sluice check` lists them, ", trained->name,
                             " is one")));
    }
  }
  return violations;
}

}  // namespace sluice
