#ifndef SLUICE_CLI_PLOT_FIGURE_H_
#define SLUICE_CLI_PLOT_FIGURE_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace sluice {

// A picture: a gnuplot script that holds its data and, run in a folder, leaves
// NAME.svg and NAME.png there. People may edit it and run it again.
struct Figure {
  std::string name;
  std::string script;
};

// The data of one picture, as the script of its figure (figures/*.gp, where the
// names stand) reads them: variables, and blocks of rows.
//
// Not thread-safe.
class FigureData {
 public:
  void AddNumber(absl::string_view name, double value);
  void AddText(absl::string_view name, absl::string_view text);
  // Arrays, counted from 1. REQUIRES: not empty.
  void AddNumbers(absl::string_view name, const std::vector<double>& values);
  void AddTexts(absl::string_view name, const std::vector<std::string>& texts);
  // Block $NAME of the data sets that are not empty, and the variable NAME that
  // says which of them these are, counted from 1: "1 3". A data set is text, a
  // line a row; `columns` says for people what stands in a row.
  void AddBlock(absl::string_view name, absl::string_view columns,
                const std::vector<std::string>& data_sets);

  // The picture of these data. `script`: what figure_scripts.h has of the
  // figure.
  Figure Drawn(const std::string& name, absl::string_view script) const;

 private:
  std::string text_;
};

// `text` as a string constant of gnuplot, in which nothing but the text itself
// has a meaning. What cannot be drawn (control characters, bytes that are no
// UTF-8) becomes '?'.
std::string Quoted(absl::string_view text);

// Writes FOLDER/NAME.gnuplot and has the program `gnuplot` make NAME.svg and
// NAME.png of it there; what the folder holds under these names is replaced.
// Blocks until it is done.
//
// kUnavailable: a file cannot be written, or gnuplot is not installed (says
// how to); kInternal: gnuplot did not like the script: what it says;
// kCancelled: it was stopped by a signal to this process, or took a minute. The
// script, with its data, is there in every case but the first.
absl::Status Draw(const Figure& figure, const std::string& folder,
                  const std::string& gnuplot);

}  // namespace sluice

#endif  // SLUICE_CLI_PLOT_FIGURE_H_
