# How an error falls with time, of each of several choices, and the error that
# they are to reach.
#
#   name, title, error_text, target
#   legend       the choices' names, and last the target's
#   style        of each choice: those of one kind have one colour (as in
#                style.gp), dashed differently
#   given_up     of each choice: 1 where it was given up early
#   $curves      seconds and error; a data set for each choice

# More points than these on a curve hide it.
most_points = 30
# Beyond so many decades gnuplot's own tics are dense enough.
few_decades = 2.5

choices = |style|
panel_heights = '420'
above_panel = 0  # It has no title.
stats $curves using 1 nooutput
last = STATS_max
stats $curves using 2 nooutput
low = STATS_min < target ? STATS_min : target
high = STATS_max > target ? STATS_max : target
array every[choices]
do for [c=1:choices] {
  stats $curves index c-1 using 2 nooutput
  every[c] = 1 + int(STATS_records) / most_points
}

eval layout
do for [kind in "svg png"] {
  eval picture
  eval panel
  set xlabel 'virtual time, s'
  set ylabel error_text
  set xrange [0:(last > 0 ? 1.01 * last : 1)]
  # An error of 0 has no logarithm.
  if (low > 0) {
    set logscale y
    set yrange [0.95 * low:1.05 * high]
    if (high < 10 ** few_decades * low) {
      set ytics ()
      do for [decade=floor(log10(low)):ceil(log10(high))] {
        do for [digit in "1 2 3 5 7"] { set ytics add (digit * 10.0 ** decade) }
      }
    }
  }
  plot for [c=1:choices] $curves index c-1 using 1:2 \
         with linespoints lw (given_up[c] ? 1 : 2) \
         lc rgb (given_up[c] ? faint(style[c]) : colour(style[c])) \
         dt dashes(style[c]) pt point(style[c]) \
         ps (given_up[c] ? 0 : 0.6) pi every[c] notitle, \
       target with lines lw 1.5 dt 3 lc rgb '#444444' notitle, \
       for [c=1:choices] keyentry \
         with linespoints lw (given_up[c] ? 1 : 2) \
         lc rgb (given_up[c] ? faint(style[c]) : colour(style[c])) \
         dt dashes(style[c]) pt point(style[c]) \
         ps (given_up[c] ? 0 : 0.6) title legend[c], \
       keyentry with lines lw 1.5 dt 3 lc rgb '#444444' title legend[|legend|]
  unset multiplot
}
unset output
