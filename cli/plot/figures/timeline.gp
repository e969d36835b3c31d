# Who computed, waited or was cancelled in the first updates: a panel a run.
#
#   panel_titles  what stands above each run
#   workers       of each run, those that are shown, from the top: "0 1 2"
#   ends          of each run, where its axis ends, in seconds
#   activities    those that there are, of all runs
#   $bars         the worker's row, its activity, begin and end in seconds, and
#                 the version that its gradient made, or 0
#   $updates      when an update was decided, in seconds
#
# The blocks hold a data set for each run. Later bars are drawn over earlier
# ones.

worker_height = 20
# More lines than these hide the bars.
most_updates = 60
# A bar with room for the name of a version, of a panel's width.
name_width = 0.055

name = 'timeline'
title = 'The first updates: who computed, who waited, who was cancelled'
colour_of(activity) = activity eq 'waits' ? 0xc8c8c8 \
                    : activity eq 'applied' ? 0x0072B2 \
                    : activity eq 'cancelled' ? 0xD55E00 \
                    : activity eq 'dropped' ? 0xCC79A7 \
                    : activity eq 'rejected' ? 0x000000 : 0xE69F00
# 1: the distance of two workers.
half_height(activity) = activity eq 'waits' ? 0.08 : 0.36
text_of(activity) = activity eq 'waits' ? activity \
                  : activity eq 'applied' ? 'computes, applied in vN' \
                  : 'computes, '.activity

array legend[words(activities) + 1]
do for [i=1:words(activities)] { legend[i] = text_of(word(activities, i)) }
legend[|legend|] = 'an update is decided'
panel_heights = ''
do for [p=1:|workers|] {
  panel_heights = panel_heights.sprintf('%d ', words(workers[p]) * worker_height)
}

eval layout
do for [kind in "svg png"] {
  eval picture
  do for [p=1:|workers|] {
    rows = words(workers[p])
    # Seconds, or milliseconds where those would be 0.00-something.
    scale = ends[p] < 1 ? 1000 : 1

    eval panel
    stats $updates index p-1 using 1 nooutput
    set title panel_titles[p]
    unset grid
    set ylabel 'worker'
    set xlabel 'time since the first task, '.(scale == 1 ? 's' : 'ms')
    set ytics ()
    do for [w=1:rows] { set ytics add (word(workers[p], w) w - 1) }
    set yrange [rows - 0.5:-0.5]
    set xrange [0:ends[p] * scale]
    plot for [i=1:(STATS_records <= most_updates)] $updates index p-1 \
           using ($1 * scale):(-0.5):(0):(rows) \
           with vectors nohead lw 0.8 lc rgb '#444444' notitle, \
         $bars index p-1 using ($3 * scale):1:($3 * scale):($4 * scale): \
           ($1 - half_height(strcol(2))):($1 + half_height(strcol(2))): \
           (colour_of(strcol(2))) \
           with boxxyerror fs solid border rgb 'white' lw 0.6 \
           fc rgb variable notitle, \
         $bars index p-1 using (0.5 * ($3 + $4) * scale):1:\
           ($5 > 0 && $4 - $3 >= name_width * ends[p] ? \
            sprintf('v%d', $5) : '') \
           with labels font ',11' tc rgb 'white' notitle, \
         for [i=1:words(activities)] keyentry with boxes \
           fc rgb colour_of(word(activities, i)) title legend[i], \
         keyentry with lines lw 0.8 lc rgb '#444444' title legend[|legend|]
  }
  unset multiplot
}
unset output
