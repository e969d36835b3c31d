#include "cli/deploy/kubernetes_options.h"

#include <algorithm>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace sluice {
namespace {

constexpr size_t kLongestName = 40;

// A size above 0 as Kubernetes writes it (its Quantity): "10Gi", "1.5T", "500".
bool IsSize(absl::string_view text) {
  const size_t end =
      std::min(text.find_first_not_of("0123456789."), text.size());
  const absl::string_view suffix = text.substr(end);
  double number = 0;
  return absl::SimpleAtod(text.substr(0, end), &number) && number > 0 &&
         absl::c_linear_search(
             std::vector<absl::string_view>{"", "k", "M", "G", "T", "P", "E",
                                            "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"},
             suffix);
}

// A name of an object (RFC 1123): labels with dots between them.
bool IsSubdomain(absl::string_view name) {
  constexpr size_t kLongest = 253;
  return name.size() <= kLongest &&
         absl::c_all_of(absl::StrSplit(name, '.'), [](absl::string_view label) {
           return !label.empty() && label.front() != '-' &&
                  label.back() != '-' && absl::c_all_of(label, [](char c) {
                    return absl::ascii_islower(c) || absl::ascii_isdigit(c) ||
                           c == '-';
                  });
         });
}

bool HasNoSpaces(absl::string_view text) {
  return absl::c_all_of(text, absl::ascii_isgraph);
}

}  // namespace

absl::Status CheckKubernetesOptions(const KubernetesOptions& options) {
  const std::string& name = options.name;
  const bool label =
      !name.empty() && name.size() <= kLongestName &&
      absl::ascii_isalpha(name.front()) && absl::ascii_isalnum(name.back()) &&
      absl::c_all_of(name, [](char c) {
        return absl::ascii_islower(c) || absl::ascii_isdigit(c) || c == '-';
      });
  if (!label) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--name, by default the job's: expected at most ", kLongestName,
        " of a-z, 0-9 and -, beginning with a letter and not ending with -; "
        "got \"",
        name, "\""));
  }
  if (!IsSize(options.storage)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--storage: expected a size such as 10Gi or 500M, got \"",
                     options.storage, "\""));
  }
  if (!options.memory.empty() && !IsSize(options.memory)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--memory: expected a size such as 4Gi or 500M, got \"",
                     options.memory, "\""));
  }
  if (options.image.empty() || !HasNoSpaces(options.image)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--image: expected a name without spaces, got \"",
                     options.image, "\""));
  }
  if (!options.storage_class.empty() && !IsSubdomain(options.storage_class)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--storage-class: expected a name of a-z, 0-9, - and ., such as "
        "nfs-client, got \"",
        options.storage_class, "\""));
  }
  const bool pods = options.holder == PodHolder::kPods;
  if (options.insecure && !options.certificates.empty()) {
    return absl::InvalidArgumentError(
        "--tls and --insecure exclude each other");
  }
  if (pods && (options.insecure || options.gpu || options.pod_monitor ||
               !options.certificates.empty())) {
    return absl::InvalidArgumentError(
        "--pods: bare pods use the loopback of one host, without certificates, "
        "GPUs and Prometheus' operator; expected none of --tls, --insecure, "
        "--gpu, --pod-monitor");
  }
  return absl::OkStatus();
}

}  // namespace sluice
