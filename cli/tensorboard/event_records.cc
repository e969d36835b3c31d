#include "cli/tensorboard/event_records.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "proto/tensorboard.pb.h"

namespace sluice {
namespace {

using nlohmann::json;

constexpr char kFileVersion[] = "brain.Event:2";

std::string LittleEndian(uint64_t value, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i) {
    text.push_back(static_cast<char>(value >> (8 * i)));
  }
  return text;
}

// A record's checksums are rotated, and moved by a constant.
std::string Checksum(absl::string_view bytes) {
  const uint32_t crc = Crc32c(bytes);
  return LittleEndian(((crc >> 15) | (crc << 17)) + 0xa282ead8u, 4);
}

std::string Record(const tensorboard::Event& event) {
  return TfRecord(event.SerializeAsString());
}

// Adds the numbers in `value`: those of an object under "tag/member".
void AddScalars(const std::string& tag, const json& value,
                tensorboard::Summary* summary) {
  if (value.is_object()) {
    for (const auto& [name, member] : value.items()) {
      AddScalars(absl::StrCat(tag, "/", name), member, summary);
    }
  } else if (value.is_number()) {
    tensorboard::Summary::Value* added = summary->add_value();
    added->set_tag(tag);
    added->set_simple_value(value.get<float>());
  }
}

// Of `counts` gradients by staleness; the last bin holds all above, too.
tensorboard::HistogramProto Histogram(const std::vector<int64_t>& counts) {
  tensorboard::HistogramProto histogram;
  for (size_t staleness = 0; staleness < counts.size(); ++staleness) {
    const auto count = static_cast<double>(counts[staleness]);
    const auto value = static_cast<double>(staleness);
    if (count > 0 && histogram.num() == 0) histogram.set_min(value);
    if (count > 0) histogram.set_max(value);
    histogram.set_num(histogram.num() + count);
    histogram.set_sum(histogram.sum() + count * value);
    histogram.set_sum_squares(histogram.sum_squares() + count * value * value);
    histogram.add_bucket_limit(value + 0.5);
    histogram.add_bucket(count);
  }
  return histogram;
}

// `now` less `before`; empty where something was taken back, or nothing came.
std::vector<int64_t> Added(const std::vector<int64_t>& before,
                           std::vector<int64_t> now) {
  if (before.size() > now.size()) return {};
  for (size_t i = 0; i < before.size(); ++i) now[i] -= before[i];
  const bool grew = std::ranges::any_of(now, [](int64_t n) { return n > 0; });
  const bool fell = std::ranges::any_of(now, [](int64_t n) { return n < 0; });
  return grew && !fell ? now : std::vector<int64_t>();
}

}  // namespace

uint32_t Crc32c(absl::string_view bytes) {
  uint32_t crc = ~0u;
  for (const char byte : bytes) {
    crc ^= static_cast<unsigned char>(byte);
    for (int bit = 0; bit < 8; ++bit) {
      crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82f63b78u : 0u);
    }
  }
  return ~crc;
}

std::string TfRecord(absl::string_view bytes) {
  const std::string length = LittleEndian(bytes.size(), 8);
  return absl::StrCat(length, Checksum(length), bytes, Checksum(bytes));
}

std::string EventRecords::Head() const {
  tensorboard::Event event;
  event.set_wall_time(started_);
  event.set_file_version(kFileVersion);
  return Record(event);
}

absl::StatusOr<std::string> EventRecords::Add(absl::string_view line) {
  const json parsed = json::parse(line, nullptr, /*allow_exceptions=*/false);
  const auto has = [&](const char* name) {
    return parsed.contains(name) && parsed[name].is_number();
  };
  if (!parsed.is_object() || !has("seconds") || !has("version")) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected a JSON object with numbers seconds and version, "
                     "got ",
                     line.substr(0, 60)));
  }
  tensorboard::Event event;
  event.set_wall_time(started_ + parsed["seconds"].get<double>());
  event.set_step(parsed["version"].get<int64_t>());
  std::string records;
  if (event.step() < version_) {
    event.mutable_session_log()->set_status(tensorboard::SessionLog::START);
    records += Record(event);
  }
  version_ = event.step();

  tensorboard::Event measured = event;
  for (const auto& [name, value] : parsed.items()) {
    if (name == "seconds" || name == "version" || name == "test_version") {
      continue;
    }
    AddScalars(name, value,
               absl::StartsWith(name, "test_") ? measured.mutable_summary()
                                               : event.mutable_summary());
  }
  if (const auto found = parsed.find("staleness_histogram");
      found != parsed.end() && found->is_array()) {
    std::vector<int64_t> staleness;
    for (const json& count : *found) {
      staleness.push_back(count.is_number() ? count.get<int64_t>() : 0);
    }
    const std::vector<int64_t> added = Added(staleness_, staleness);
    if (!added.empty()) {
      tensorboard::Summary::Value* value = event.mutable_summary()->add_value();
      value->set_tag("staleness");
      *value->mutable_histo() = Histogram(added);
    }
    staleness_ = staleness;
  }
  records += Record(event);
  if (has("test_version")) {
    measured.set_step(parsed["test_version"].get<int64_t>());
    records += Record(measured);
  }
  return records;
}

}  // namespace sluice
