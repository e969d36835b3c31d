#include "bench/report.h"

#include <cstdio>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "nlohmann/json.hpp"

namespace sluice::bench {

Report::Report(std::string name, std::string question)
    : name_(std::move(name)), question_(std::move(question)) {}

std::string Report::Table() const {
  std::string text = absl::StrCat(question_, "\n");
  absl::StrAppendFormat(&text, "%-36s %12s %12s %6s  %s\n", "", "measured",
                        "expected", "ratio", "unit, expected from");
  for (const Row& row : rows_) {
    absl::StrAppendFormat(&text, "%-36s %12.5g %12.5g %6.2f  %s, %s", row.what,
                          row.measured, row.expected, row.ratio(), row.unit,
                          row.expected_from);
    for (const auto& [name, value] : row.more) {
      absl::StrAppendFormat(&text, ", %s %.4g", name, value);
    }
    text += '\n';
  }
  for (const std::string& note : notes_) absl::StrAppend(&text, note, "\n");
  return text;
}

std::string Report::Json() const {
  nlohmann::json rows = nlohmann::json::array();
  for (const Row& row : rows_) {
    nlohmann::json one = row.more;
    if (row.more.empty()) one = nlohmann::json::object();
    one["what"] = row.what;
    one["unit"] = row.unit;
    one["expected_from"] = row.expected_from;
    one["expected"] = row.expected;
    one["measured"] = row.measured;
    one["ratio"] = row.ratio();
    rows.push_back(one);
  }
  const nlohmann::json report = {{"name", name_},
                                 {"question", question_},
                                 {"rows", rows},
                                 {"notes", notes_}};
  return report.dump(2);
}

void Report::Print(bool json) const {
  std::printf("%s\n", (json ? Json() : Table()).c_str());
}

}  // namespace sluice::bench
