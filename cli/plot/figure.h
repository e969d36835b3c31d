#ifndef SLUICE_CLI_PLOT_FIGURE_H_
#define SLUICE_CLI_PLOT_FIGURE_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

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

// `text` as a string constant of gnuplot. No character of it is taken for a
// command or mark-up. Control characters and bytes that are no UTF-8 become
// '?', an apostrophe at the beginning a typographic one.
std::string Quoted(absl::string_view text);

// Writes FOLDER/NAME.gnuplot, and runs the program `gnuplot` on it, which makes
// NAME.svg and NAME.png there. Replaces older files of these names. Blocks
// until it is done.
//
// kUnavailable: a file cannot be written, or gnuplot is not installed (the
// message says how to). kInternal: gnuplot failed; the message is its own.
// kCancelled: this process got a signal. kDeadlineExceeded: gnuplot took longer
// than `patience`. Unless a file could not be written, the script is there.
absl::Status Draw(const Figure& figure, const std::string& folder,
                  const std::string& gnuplot,
                  absl::Duration patience = absl::Minutes(1));

}  // namespace sluice

#endif  // SLUICE_CLI_PLOT_FIGURE_H_
