#ifndef SLUICE_COMMON_JOB_JOB_CHECKER_H_
#define SLUICE_COMMON_JOB_JOB_CHECKER_H_

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <cfloat>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/job.pb.h"

namespace sluice {

// Collects violations, "field.path: what is wrong", in the order of the checks;
// each but Enums adds one or none.
//
// Not thread-safe: call from one thread.
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
  // `least` and `most` are allowed; NaN is not. `why` names where a bound comes
  // from: " (cluster.workers)", with a space before it.
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
  // What keeps a float32 from being divided by 0; at most 1e6.
  void Epsilon(const std::string& path, double value) {
    AboveZero(path, value, 1e6);
    Require(!(value > 0) || value >= FLT_MIN, path,
            absl::StrCat("is ", value, ", which is 0 in float32"));
  }
  // At least 0 and below 1.
  void Share(const std::string& path, double value) {
    Require(value >= 0 && value < 1, path,
            absl::StrCat("must be at least 0 and below 1, is ", value));
  }
  // What may be part of a file name and of a tensor's name: 1 to 64 letters,
  // digits, '_', '-' or '.', the first neither '-' nor '.'.
  void Name(const std::string& path, const std::string& name);
  // Every enumeration in `message` and the messages in it has a value that
  // there is, not 0. `prefix` stands before a field's name: "" or "sync.".
  void Enums(const std::string& prefix,
             const google::protobuf::Message& message);

 private:
  void Enum(const std::string& path,
            const google::protobuf::EnumDescriptor& type, int value);

  std::vector<std::string> violations_;
};

// The parts of a job whose checks have a file of their own. Each adds the
// violations of job.proto's bounds. REQUIRES: defaults are filled in.

// Of `data` (data_validation.cc). `evaluated`: the job's evaluation needs a
// test split.
void CheckData(const proto::Data& data, bool evaluated, Checker* check);
// Of `delays` (delay_validation.cc).
void CheckDelays(const proto::Delays& delays, Checker* check);
// Of `model.external` and `data.external`, and of what a model process refuses
// in the rest of the job (external_validation.cc).
void CheckExternal(const proto::Job& job, Checker* check);
// Of `sync`, some of which depend on the rest of the job (sync_validation.cc).
void CheckSync(const proto::Job& job, Checker* check);

}  // namespace sluice

#endif  // SLUICE_COMMON_JOB_JOB_CHECKER_H_
