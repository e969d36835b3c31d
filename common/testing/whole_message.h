#ifndef SLUICE_COMMON_TESTING_WHOLE_MESSAGE_H_
#define SLUICE_COMMON_TESTING_WHOLE_MESSAGE_H_

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <google/protobuf/text_format.h>
#include <google/protobuf/util/message_differencer.h>

#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {

// Under ThreadSanitizer protobuf's headers lay maps out otherwise than Debian's
// library, so that neither its reflection nor its texts can be used on them.
#ifdef __SANITIZE_THREAD__
inline constexpr bool kMapsDiffer = true;
#else
inline constexpr bool kMapsDiffer = false;
#endif

// The names of the fields of `message` that are not set, "commit.entry.weight",
// those of the messages in it included; of a oneof, its name if none is. Under
// ThreadSanitizer none is said.
inline std::vector<std::string> UnsetFields(
    const google::protobuf::Message& message) {
  using google::protobuf::FieldDescriptor;
  const auto* type = message.GetDescriptor();
  const auto* reflection = message.GetReflection();
  std::vector<std::string> unset;
  if (kMapsDiffer) return unset;
  for (int i = 0; i < type->real_oneof_decl_count(); ++i) {
    if (!reflection->HasOneof(message, type->oneof_decl(i))) {
      unset.push_back(type->oneof_decl(i)->name());
    }
  }
  for (int i = 0; i < type->field_count(); ++i) {
    const FieldDescriptor* field = type->field(i);
    std::vector<const google::protobuf::Message*> within;
    if (field->is_repeated()) {
      const int size = reflection->FieldSize(message, field);
      if (size == 0) unset.push_back(field->name());
      for (int j = 0; field->message_type() != nullptr && j < size; ++j) {
        within.push_back(&reflection->GetRepeatedMessage(message, field, j));
      }
    } else if (reflection->HasField(message, field)) {
      if (field->message_type() != nullptr) {
        within.push_back(&reflection->GetMessage(message, field));
      }
    } else if (field->real_containing_oneof() == nullptr) {
      unset.push_back(field->name());
    }
    for (const auto* inner : within) {
      for (const std::string& name : UnsetFields(*inner)) {
        unset.push_back(field->name() + "." + name);
      }
    }
  }
  return unset;
}

// Expects `message` to be what `text` says, and every field of it to be set but
// for those that `unset` names. So a field that is added to a message, and that
// a conversion does not fill, fails the conversion's test.
inline void ExpectWhole(const google::protobuf::Message& message,
                        const std::string& text,
                        const std::vector<std::string>& unset = {}) {
  if (kMapsDiffer) GTEST_SKIP() << "SKIPPED: under ThreadSanitizer";
  std::unique_ptr<google::protobuf::Message> expected(message.New());
  ASSERT_TRUE(
      google::protobuf::TextFormat::ParseFromString(text, expected.get()));
  google::protobuf::util::MessageDifferencer differencer;
  std::string difference;
  differencer.ReportDifferencesToString(&difference);
  EXPECT_TRUE(differencer.Compare(*expected, message)) << difference;
  EXPECT_THAT(UnsetFields(message), testing::UnorderedElementsAreArray(unset));
}

}  // namespace sluice

#endif  // SLUICE_COMMON_TESTING_WHOLE_MESSAGE_H_
