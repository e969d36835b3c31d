# Loss and accuracy against time or version.
#
#   against     'time' or 'version'
#   legend      the runs' names
#   $training   seconds, version and loss of updates
#   $test       seconds, version and loss of evaluations
#   $accuracy   seconds, version and accuracy of evaluations
#
# The blocks hold a data set for each run that has any; the variables
# `training`, `test` and `accuracy` say which runs these are.

# More points than these on a curve hide it; the line goes through all.
most_points = 40
# A logarithmic axis where the loss falls further than this.
linear_ratio = 50

name = against
title = (accuracy eq '' ? 'Loss' : 'Loss and accuracy').' against '.against
panel_heights = (training.test eq '' ? '' : '230 ').\
                (accuracy eq '' ? '' : '230')
column_x = against eq 'time' ? 1 : 2
array every[|legend|]

eval layout
do for [kind in "svg png"] {
  eval picture
  do for [measured in "test accuracy"] {
    thin = measured eq 'test' ? training : ''
    thick = value(measured)
    if (thin.thick eq '') { continue }

    eval panel
    last = 0; low = 1e300; high = -1e300
    do for [block in (thin eq '' ? '' : '$training ').\
                     (thick eq '' ? '' : '$'.measured)] {
      stats block using column_x nooutput
      if (STATS_max > last) { last = STATS_max }
      stats block using 3 nooutput
      if (STATS_min < low) { low = STATS_min }
      if (STATS_max > high) { high = STATS_max }
    }
    do for [i=1:words(thick)] {
      stats '$'.measured index i-1 using 3 nooutput
      every[i] = 1 + int(STATS_records) / most_points
    }

    logarithmic = measured eq 'test' && low > 0 && high > linear_ratio * low
    set title (measured eq 'accuracy' ? 'Test accuracy' \
               : thin eq '' ? 'Test loss' : thick eq '' ? 'Training loss' \
               : 'Loss: test (with points) and training (thin)').\
              (logarithmic ? ', logarithmic' : '')
    set xlabel against eq 'time' ? 'time since the first task, s' : 'version'
    set ylabel measured eq 'accuracy' ? 'accuracy' : 'loss'
    set xrange [0:(last > 0 ? 1.01 * last : 1)]
    if (logarithmic) { set logscale y }
    # One value alone has no range of its own.
    if (low == high) { set yrange [low - 0.5:high + 0.5] }
    # The thin lines first, so that they do not hide the others. Where there are
    # none gnuplot would still make room for the first on the axis.
    plot for [i=1:words(thin)] $training index i-1 \
           using column_x:(thin eq '' ? NaN : $3) \
           with lines lw 0.8 lc rgb faint(number(thin, i)) \
           dt dashes(number(thin, i)) notitle, \
         for [i=1:words(thick)] '$'.measured index i-1 using column_x:3 \
           with linespoints lw 2 lc rgb colour(number(thick, i)) \
           dt dashes(number(thick, i)) pt point(number(thick, i)) ps 0.6 \
           pi every[i] notitle, \
         for [r=1:|legend|] keyentry with linespoints lw 2 \
           lc rgb colour(r) dt dashes(r) pt point(r) ps 0.6 title legend[r]
  }
  unset multiplot
}
unset output
