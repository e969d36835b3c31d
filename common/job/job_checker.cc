#include "common/job/job_checker.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_join.h"

namespace sluice {

using ::google::protobuf::EnumDescriptor;
using ::google::protobuf::FieldDescriptor;
using ::google::protobuf::Message;

void Checker::Name(const std::string& path, const std::string& name) {
  bool plain =
      !name.empty() && name.size() <= 64 && name[0] != '.' && name[0] != '-';
  for (const char c : name) {
    plain =
        plain && (absl::ascii_isalnum(c) || c == '_' || c == '-' || c == '.');
  }
  Require(plain, path,
          absl::StrCat("must be 1 to 64 letters, digits, '_', '-' or '.', not "
                       "beginning with '-' or '.', is \"",
                       name, "\""));
}

void Checker::Enum(const std::string& path, const EnumDescriptor& type,
                   int value) {
  if (value != 0 && type.FindValueByNumber(value) != nullptr) return;
  std::vector<std::string> names;
  for (int i = 1; i < type.value_count(); ++i) {
    names.push_back(type.value(i)->name());
  }
  Add(path, absl::StrCat("must be one of ", absl::StrJoin(names, ", "), ", is ",
                         value == 0 ? "not set" : absl::StrCat(value)));
}

void Checker::Enums(const std::string& prefix, const Message& message) {
  const auto* reflection = message.GetReflection();
  for (int i = 0; i < message.GetDescriptor()->field_count(); ++i) {
    const FieldDescriptor* field = message.GetDescriptor()->field(i);
    const std::string path = absl::StrCat(prefix, field->name());
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_ENUM) {
      Enum(path, *field->enum_type(), reflection->GetEnumValue(message, field));
    } else if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) {
      continue;
    } else if (!field->is_repeated()) {
      if (!reflection->HasField(message, field)) continue;
      Enums(absl::StrCat(path, "."), reflection->GetMessage(message, field));
    } else {
      for (int j = 0; j < reflection->FieldSize(message, field); ++j) {
        Enums(absl::StrCat(path, "[", j, "]."),
              reflection->GetRepeatedMessage(message, field, j));
      }
    }
  }
}

}  // namespace sluice
