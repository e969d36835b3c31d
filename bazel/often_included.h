#ifndef SLUICE_BAZEL_OFTEN_INCLUDED_H_
#define SLUICE_BAZEL_OFTEN_INCLUDED_H_

// What many sources include, of the system's headers. They are parsed once for
// all of them; a source includes what it uses all the same. Not every header
// gains: what the inline functions of one instantiate is compiled in each
// source (nlohmann/json.hpp: 0.4 s, CLI/CLI.hpp: 3 s).
#include <algorithm>
#include <chrono>
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
#include "google/protobuf/generated_message_util.h"
#include "google/protobuf/map.h"
#include "google/protobuf/repeated_field.h"

#endif  // SLUICE_BAZEL_OFTEN_INCLUDED_H_
