#ifndef SLUICE_CLI_PLOT_DRAW_H_
#define SLUICE_CLI_PLOT_DRAW_H_

#include <string>

#include "absl/status/status.h"
#include "cli/plot/gnuplot_script.h"

namespace sluice {

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

#endif  // SLUICE_CLI_PLOT_DRAW_H_
