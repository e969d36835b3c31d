#ifndef SLUICE_BAZEL_OFTEN_INCLUDED_H_
#define SLUICE_BAZEL_OFTEN_INCLUDED_H_

// What nearly every test includes. It is parsed once for all of them; a test
// includes what it uses all the same.
#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "google/protobuf/generated_message_util.h"
#include "google/protobuf/map.h"
#include "google/protobuf/repeated_field.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

#endif  // SLUICE_BAZEL_OFTEN_INCLUDED_H_
