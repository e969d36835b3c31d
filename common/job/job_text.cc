// An override goes through three steps. "model.layer[3].dense.units=64" is
// first split at '='. FindPlace then follows the path from the job to a Place:
// the message `dense` and its field `units`. Finally Set writes the value, by
// the kind of the field: a message from {...}, a list from [...], or a scalar.
//
//   - Values are parsed by protobuf's own text parser, so that an override
//     accepts what the job file accepts.
//   - ApplyOverride works on a copy. A refused override leaves the job
//     unchanged.
#include "common/job/job_text.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/message.h>
#include <google/protobuf/text_format.h>

#include <memory>
#include <set>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "common/status_macros.h"

namespace sluice {
namespace {

// Depth of nested messages: far above any use, and safe for the stack.
constexpr int kDeepest = 100;

using ::google::protobuf::Descriptor;
using ::google::protobuf::EnumDescriptor;
using ::google::protobuf::FieldDescriptor;
using ::google::protobuf::Message;
using ::google::protobuf::TextFormat;

std::string FieldNames(const Descriptor& type) {
  if (type.field_count() == 0) return "It has no fields.";
  std::vector<std::string> names;
  for (int i = 0; i < type.field_count(); ++i) {
    names.push_back(type.field(i)->name());
  }
  return absl::StrCat("It has: ", absl::StrJoin(names, ", "), ".");
}

// The names of an enumeration without the first one, which means "not given".
std::string ValueNames(const EnumDescriptor& type) {
  std::vector<std::string> names;
  for (int i = 1; i < type.value_count(); ++i) {
    names.push_back(type.value(i)->name());
  }
  return absl::StrJoin(names, ", ");
}

// Adds the type of each field called `name` in `type`'s fields, if it is an
// enumeration, and of those in what is nested there.
void AddEnumerations(const Descriptor& type, absl::string_view name,
                     std::set<const Descriptor*>* seen,
                     std::set<const EnumDescriptor*>* found) {
  if (!seen->insert(&type).second) return;
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    if (field.enum_type() != nullptr && field.name() == name) {
      found->insert(field.enum_type());
    }
    if (field.message_type() != nullptr) {
      AddEnumerations(*field.message_type(), name, seen, found);
    }
  }
}

// The alternatives to a name that the parser does not know, if its message
// tells the type in question.
std::string Alternatives(absl::string_view message) {
  const std::vector<absl::string_view> parts = absl::StrSplit(message, '"');
  if (parts.size() < 4) return "";
  if (parts[0] == "Message type ") {
    const Descriptor* type =
        proto::Job::descriptor()->file()->pool()->FindMessageTypeByName(
            std::string(parts[1]));
    return type == nullptr ? "" : absl::StrCat(" ", FieldNames(*type));
  }
  if (parts[0] != "Unknown enumeration value of ") return "";
  std::set<const Descriptor*> seen;
  std::set<const EnumDescriptor*> found;
  AddEnumerations(*proto::Job::descriptor(), parts[3], &seen, &found);
  return found.size() != 1
             ? ""
             : absl::StrCat(" It is one of: ", ValueNames(**found.begin()),
                            ".");
}

// Collects mistakes as "name:line:column: message".
class Mistakes final : public google::protobuf::io::ErrorCollector {
 public:
  explicit Mistakes(std::string name) : name_(std::move(name)) {}

  void AddError(int line, int column, const std::string& message) override {
    lines_.push_back(absl::StrCat(name_, ":", line + 1, ":", column + 1, ": ",
                                  message, Alternatives(message)));
  }

  std::string Text() const { return absl::StrJoin(lines_, "\n"); }

 private:
  std::string name_;
  std::vector<std::string> lines_;
};

// A field of a message, or an element of a repeated field.
struct Place {
  Message* message = nullptr;
  const FieldDescriptor* field = nullptr;
  int index = -1;  // Index of the element; -1: the whole field.
};

// Finds "layer[3]" or "sync" in `message`. A list without an index, "layer", is
// found only as the `last` part of the path. `before` is the path up to here.
absl::StatusOr<Place> FindPart(absl::string_view part,
                               const std::string& before, bool last,
                               Message* message) {
  const std::vector<std::string> pieces = absl::StrSplit(part, '[');
  const Descriptor& type = *message->GetDescriptor();
  Place place{message, type.FindFieldByName(pieces[0])};
  const std::string path = absl::StrCat(before, pieces[0]);
  if (place.field == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": ", type.name(), " has no field named \"",
                     pieces[0], "\". ", FieldNames(type)));
  }
  if (!place.field->is_repeated()) {
    if (pieces.size() == 1) return place;
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": takes no index, got \"", part, "\""));
  }
  if (last && pieces.size() == 1) return place;
  const int size = message->GetReflection()->FieldSize(*message, place.field);
  const std::string index_text = pieces.size() == 2 ? pieces[1] : "";
  absl::string_view index = index_text;
  if (!absl::ConsumeSuffix(&index, "]") ||
      !absl::SimpleAtoi(index, &place.index) || place.index < 0 ||
      place.index >= size) {
    const std::string there = size == 0
                                  ? "there are none"
                                  : absl::StrCat("there are ", path, "[0] to ",
                                                 path, "[", size - 1, "]");
    return absl::InvalidArgumentError(absl::StrCat(
        path, ": expected the index of one, got \"", part, "\"; ", there));
  }
  return place;
}

Message* MessageAt(const Place& place) {
  const auto* reflection = place.message->GetReflection();
  return place.index >= 0
             ? reflection->MutableRepeatedMessage(place.message, place.field,
                                                  place.index)
             : reflection->MutableMessage(place.message, place.field);
}

absl::StatusOr<Place> FindPlace(absl::string_view path, Message* message) {
  std::string before;
  std::vector<absl::string_view> parts = absl::StrSplit(path, '.');
  for (size_t i = 0;; ++i) {
    const bool last = i + 1 == parts.size();
    SLUICE_ASSIGN_OR_RETURN(const Place place,
                            FindPart(parts[i], before, last, message));
    if (last) return place;
    absl::StrAppend(&before, parts[i]);
    if (place.field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) {
      return absl::InvalidArgumentError(
          absl::StrCat(before, ": is a value and has no field named \"",
                       parts[i + 1], "\""));
    }
    absl::StrAppend(&before, ".");
    message = MessageAt(place);
  }
}

absl::Status SetMessage(const std::string& path, absl::string_view value,
                        const Place& place) {
  if (!absl::ConsumePrefix(&value, "{") || !absl::ConsumeSuffix(&value, "}")) {
    const Descriptor& type = *place.field->message_type();
    return absl::InvalidArgumentError(absl::StrCat(
        path, ": is a message: set one of its fields, or give {...}, got \"",
        value, "\". ", FieldNames(type)));
  }
  Mistakes mistakes(absl::StrCat(path, "={...}"));
  TextFormat::Parser parser;
  parser.SetRecursionLimit(kDeepest);
  parser.RecordErrorsTo(&mistakes);
  if (parser.ParseFromString(std::string(value), MessageAt(place))) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(mistakes.Text());
}

absl::Status SetList(const std::string& path, const std::string& value,
                     const Place& place) {
  const std::string name = place.field->name();
  if (!absl::StartsWith(value, "[") || !absl::EndsWith(value, "]")) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": is a list: set ", name, "[0] or another that is ",
                     "there, or give [...], got \"", value, "\""));
  }
  const std::unique_ptr<Message> given(place.message->New());
  Mistakes mistakes(absl::StrCat(path, "=[...]"));
  TextFormat::Parser parser;
  parser.SetRecursionLimit(kDeepest);
  parser.RecordErrorsTo(&mistakes);
  if (!parser.ParseFromString(absl::StrCat(name, ": ", value), given.get())) {
    return absl::InvalidArgumentError(mistakes.Text());
  }
  // After the list the text could set another field.
  std::vector<const FieldDescriptor*> fields;
  given->GetReflection()->ListFields(*given, &fields);
  if (fields.size() > 1) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": expected one list, got \"", value, "\""));
  }
  place.message->GetReflection()->SwapFields(place.message, given.get(),
                                             {place.field});
  return absl::OkStatus();
}

absl::Status SetScalar(const std::string& path, const std::string& value,
                       const Place& place) {
  const FieldDescriptor* field = place.field;
  const auto* reflection = place.message->GetReflection();
  if (field->cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
    if (place.index < 0) {
      reflection->SetString(place.message, field, value);
    } else {
      reflection->SetRepeatedString(place.message, field, place.index, value);
    }
    return absl::OkStatus();
  }
  std::string expected = field->cpp_type_name();
  if (field->cpp_type() == FieldDescriptor::CPPTYPE_ENUM) {
    expected = absl::StrCat("one of ", ValueNames(*field->enum_type()));
    const auto* known = field->enum_type()->FindValueByName(value);
    if (known == nullptr || known->number() == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": expected ", expected, ", got \"", value, "\""));
    }
  }
  // The parser decides what a number looks like, and its range. It gets one
  // token only, so that nothing can follow the number.
  const bool one_token =
      value.find_first_of(" \t\n#;,:{}<>[]\"'") == std::string::npos;
  Mistakes silent("");
  TextFormat::Parser parser;
  parser.RecordErrorsTo(&silent);
  if (!one_token ||
      !parser.ParseFieldValueFromString(value, field, place.message)) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": expected ", expected, ", got \"", value, "\""));
  }
  if (place.index >= 0) {  // The parser has appended it to the list.
    const int last = reflection->FieldSize(*place.message, field) - 1;
    reflection->SwapElements(place.message, field, place.index, last);
    reflection->RemoveLast(place.message, field);
  }
  return absl::OkStatus();
}

absl::Status Set(const std::string& path, const std::string& value,
                 const Place& place) {
  if (place.field->is_repeated() && place.index < 0) {
    return SetList(path, value, place);
  }
  return place.field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE
             ? SetMessage(path, value, place)
             : SetScalar(path, value, place);
}

}  // namespace

absl::StatusOr<proto::Job> ParseJobText(const std::string& text,
                                        const std::string& name) {
  proto::Job job;
  Mistakes mistakes(name);
  TextFormat::Parser parser;
  parser.RecordErrorsTo(&mistakes);
  // Far above any sensible model, and safe for the stack.
  parser.SetRecursionLimit(kDeepest);
  if (!parser.ParseFromString(text, &job)) {
    return absl::InvalidArgumentError(mistakes.Text());
  }
  return job;
}

absl::Status ApplyOverride(const std::string& override_text, proto::Job* job) {
  const std::vector<std::string> sides =
      absl::StrSplit(override_text, absl::MaxSplits('=', 1));
  if (sides.size() != 2) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--set ", override_text, ": expected field=value, as in sync.k=3"));
  }
  proto::Job changed = *job;
  const auto apply = [&]() -> absl::Status {
    SLUICE_ASSIGN_OR_RETURN(const Place place, FindPlace(sides[0], &changed));
    return Set(sides[0], sides[1], place);
  };
  const absl::Status status = apply();
  if (!status.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--set ", std::string(status.message())));
  }
  *job = std::move(changed);
  return absl::OkStatus();
}

}  // namespace sluice
