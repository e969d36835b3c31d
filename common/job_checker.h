#ifndef SLUICE_COMMON_JOB_CHECKER_H_
#define SLUICE_COMMON_JOB_CHECKER_H_

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace sluice {

// Collects violations, "field.path: what is wrong"; each check adds one or
// none. For one thread.
class Checker {
 public:
  // A thousand years in seconds: finite, and exact in absl::Duration.
  static constexpr double kLongest = 3e10;

  std::vector<std::string> Take() { return std::move(violations_); }

  void Add(const std::string& path, const std::string& what) {
    violations_.push_back(absl::StrCat(path, ": ", what));
  }
  void Require(bool holds, const std::string& path, const std::string& what) {
    if (!holds) Add(path, what);
  }
  // Refuses NaN too. `why` names where a bound comes from.
  template <typename T>
  void Between(const std::string& path, T value, T least, T most,
               const std::string& why = "") {
    Require(value >= least && value <= most, path,
            absl::StrCat("must be ", least, " to ", most, why, ", is ", value));
  }
  void AtLeast(const std::string& path, int64_t value, int64_t least,
               const std::string& why = "") {
    Require(value >= least, path,
            absl::StrCat("must be ", least, " or more", why, ", is ", value));
  }
  void AboveZero(const std::string& path, double value,
                 double most = kLongest) {
    Require(value > 0 && value <= most, path,
            absl::StrCat("must be above 0 and at most ", most, ", is ", value));
  }
  // At least 0 and below 1.
  void Share(const std::string& path, double value) {
    Require(value >= 0 && value < 1, path,
            absl::StrCat("must be at least 0 and below 1, is ", value));
  }
  // What may be part of a file name and of a tensor's name.
  void Name(const std::string& path, const std::string& name);
  // Every enumeration in `message` has a value that there is.
  void Enums(const std::string& prefix,
             const google::protobuf::Message& message);

 private:
  void Enum(const std::string& path,
            const google::protobuf::EnumDescriptor& type, int value);

  std::vector<std::string> violations_;
};

}  // namespace sluice

#endif  // SLUICE_COMMON_JOB_CHECKER_H_
