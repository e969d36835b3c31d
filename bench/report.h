#ifndef SLUICE_BENCH_REPORT_H_
#define SLUICE_BENCH_REPORT_H_

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace sluice::bench {

// One measured rate, and the rate that was expected in the same run. More is
// better, so durations are given as their inverse.
struct Row {
  std::string what;           // E.g. "push 64 MiB".
  std::string unit;           // E.g. "GB/s".
  std::string expected_from;  // E.g. "plain sockets".
  double expected = 0;
  double measured = 0;
  // Further figures by name and unit, e.g. {"p99_us", 81}.
  std::map<std::string, double> more = {};

  double ratio() const { return measured / expected; }
};

// Prints the results of a benchmark, as a table or as JSON:
//   {"name", "question", "rows": [{"what", "unit", "expected_from",
//    "expected", "measured", "ratio", ...more}]}.
// Not thread-safe: call from one thread.
class Report {
 public:
  // `name` is the argument of `./sluice bench`.
  Report(std::string name, std::string question);

  void Add(Row row) { rows_.push_back(std::move(row)); }
  // Adds a line under the table (in JSON to the member "notes"), for example
  // that a peer is missing, or what the figures depend on.
  void Note(std::string note) { notes_.push_back(std::move(note)); }

  std::string Table() const;
  std::string Json() const;
  // Prints to standard output.
  void Print(bool json) const;

 private:
  const std::string name_;
  const std::string question_;
  std::vector<Row> rows_;
  std::vector<std::string> notes_;
};

}  // namespace sluice::bench

#endif  // SLUICE_BENCH_REPORT_H_
