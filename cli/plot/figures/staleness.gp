# The share of the applied gradients by staleness: bars side by side.
#
#   legend        the names of the runs that are drawn, with their mean staleness
#   bin_width     values of one bin: bin 1 of width 4 holds 4, 5, 6 and 7
#   last_is_open  whether the last bin holds all larger values, too
#   $shares       bin, and the percentage of the run's gradients in it; a data
#                 set for each run that is drawn
#   shares        which runs these are: "1 3"

# Their numbers have room below the axis.
most_numbers = 12

name = 'staleness'
title = 'Staleness of the applied gradients'
panel_heights = '230'
above_panel = 0  # It has no title.
runs = words(shares)
stats $shares using 1 nooutput
bins = int(STATS_max) + 1
# Runs of the first eight have a colour each, the others are hatched besides.
solid = 0
do for [i=1:runs] { if (number(shares, i) <= |colours|) { solid = i } }
# Bars of one bin, with some air to the next one.
bar = 0.85 / runs
# `i` beyond the end stands for nothing that is drawn, and needs valid data.
data_set(i) = i <= runs ? i - 1 : 0
legend_text(i) = i <= runs ? legend[i] : ''
place(b, i) = b + (i - 0.5 * (runs + 1)) * bar

bin_name(b) = b + 1 == bins && last_is_open ? sprintf('≥ %d', b * bin_width) \
            : bin_width == 1 ? sprintf('%d', b) \
            : sprintf('%d–%d', b * bin_width, (b + 1) * bin_width - 1)
# The first and the last one, and as many between them as there is room for.
numbered_every = (bins + most_numbers - 1) / most_numbers
is_numbered(b) = b + 1 == bins || \
                 (b % numbered_every == 0 && bins - 1 - b >= numbered_every)

eval layout
do for [kind in "svg png"] {
  eval picture
  eval panel
  set xlabel 'staleness, versions'
  set ylabel 'share of gradients, %'
  set boxwidth bar
  set yrange [0:*]
  set xrange [-0.5:bins - 0.5]
  set xtics ()
  do for [b=0:bins-1] {
    if (is_numbered(b)) { set xtics add (bin_name(b) b) }
  }
  plot for [i=1:solid] $shares index data_set(i) using (place($1, i)):2 \
         with boxes lc rgb colour(number(shares, i)) fs solid notitle, \
       for [i=solid+1:runs] $shares index data_set(i) using (place($1, i)):2 \
         with boxes lc rgb colour(number(shares, i)) \
         fs pattern pattern(number(shares, i)) notitle, \
       for [i=1:solid] keyentry with boxes \
         lc rgb colour(number(shares, i)) fs solid title legend_text(i), \
       for [i=solid+1:runs] keyentry with boxes \
         lc rgb colour(number(shares, i)) \
         fs pattern pattern(number(shares, i)) title legend_text(i)
  unset multiplot
}
unset output
