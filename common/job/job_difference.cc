// Says in one line why two processes do not have the same job. Both texts are
// parsed, reduced to the fields that matter (DecisiveJob, LastingJob), and
// compared field by field. The first difference is reported with its path and
// both values:
//
//   sync.k: 3 here, 4 there
//   model.layer[2].dense.units: 64 here, 128 there
//   optimizer.momentum: not set here, set there
#include <google/protobuf/text_format.h>
#include <google/protobuf/util/message_differencer.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/job/decisive_job.h"
#include "common/job/job_text.h"
#include "common/job/resolved_job.h"

namespace sluice {
namespace {

using ::google::protobuf::FieldDescriptor;
using ::google::protobuf::Message;
using ::google::protobuf::TextFormat;
using ::google::protobuf::util::MessageDifferencer;

// Keeps the first reported difference.
class FirstDifference final : public MessageDifferencer::Reporter {
 public:
  using Path = std::vector<MessageDifferencer::SpecificField>;

  void ReportAdded(const Message& here, const Message& there,
                   const Path& path) override {
    Keep(path, "not set", Value(there, path.back().new_index, path));
  }
  void ReportDeleted(const Message& here, const Message& there,
                     const Path& path) override {
    Keep(path, Value(here, path.back().index, path), "not set");
  }
  void ReportModified(const Message& here, const Message& there,
                      const Path& path) override {
    Keep(path, Value(here, path.back().index, path),
         Value(there, path.back().new_index, path));
  }

  const std::string& text() const { return text_; }

 private:
  // `parent` is the message that has the last field of `path`.
  static std::string Value(const Message& parent, int index, const Path& path) {
    const FieldDescriptor* field = path.back().field;
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) return "set";
    std::string value;
    TextFormat::PrintFieldValueToString(
        parent, field, field->is_repeated() ? index : -1, &value);
    return value;
  }

  void Keep(const Path& path, const std::string& here,
            const std::string& there) {
    if (!text_.empty()) return;
    for (const auto& step : path) {
      absl::StrAppend(&text_, text_.empty() ? "" : ".", step.field->name());
      if (!step.field->is_repeated()) continue;
      absl::StrAppend(&text_, "[", std::max(step.index, step.new_index), "]");
    }
    absl::StrAppend(&text_, ": ", here, " here, ", there, " there");
  }

  std::string text_;
};

// Compares `part` of each job, which may depend on what the other one has.
std::string Describe(const std::string& here, const std::string& there,
                     proto::Job (*part)(const proto::Job& job,
                                        const proto::Job& other)) {
  const absl::StatusOr<proto::Job> a = ParseJobText(here, "the job here");
  if (!a.ok()) return std::string(a.status().message());
  const absl::StatusOr<proto::Job> b = ParseJobText(there, "the job there");
  if (!b.ok()) return std::string(b.status().message());
  FirstDifference first;
  MessageDifferencer differencer;
  differencer.ReportDifferencesTo(&first);
  differencer.Compare(part(*a, *b), part(*b, *a));
  return first.text();
}

}  // namespace

std::string DescribeDifference(const std::string& here,
                               const std::string& there) {
  return Describe(here, there, [](const proto::Job& job, const proto::Job&) {
    return DecisiveJob(job);
  });
}

std::string DescribeDifferenceToResume(const std::string& here,
                                       const std::string& there) {
  return Describe(here, there, LastingJob);
}

}  // namespace sluice
