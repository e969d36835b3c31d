# What all pictures have in common. A picture NAME.gnuplot is three texts, one
# after the other: its data, this one, and the script of its figure, which
#
#   sets  `name`, `title`, `legend` (an array of texts) and `panel_heights` (of
#         the axes of its panels, from the top: "230 230"), unless its data does,
#   calls `eval layout`, and then, for each `kind` in "svg png",
#         `eval picture`, and for each panel `eval panel`, then `set` and `plot`.
#
# Lengths are in the units of the SVG; the PNG has twice as many pixels. At
# 16 cm, the width of a page's text, the letters are those of an 8-point font.
width = 800
left = 92
right = 20
title_height = 40
above_panel = 30  # Its title; a figure whose panels have none sets 0.
below_panel = 66  # Numbers and the axis's name.
legend_row = 21

# Okabe and Ito, "Color universal design" (2008): distinct also for most people
# who see colours otherwise. Their yellow is too pale for a line.
array colours[8] = ['#0072B2', '#D55E00', '#009E73', '#CC79A7', \
                    '#E69F00', '#56B4E9', '#000000', '#888888']
# Filled circle, square, triangles, diamond, and open ones: grey prints too.
array points[8] = [7, 5, 9, 13, 11, 6, 4, 8]

# How run `r` (from 1) is drawn in every picture: colour and point are its own
# among the first eight, later ones are dashed or hatched.
colour(r) = colours[1 + (r - 1) % 8]
faint(r) = '#80'.substr(colour(r), 2, 7)  # Half transparent.
dashes(r) = 1 + (r - 1) / 8 % 5
pattern(r) = 3 + (r - 1) / 8
point(r) = points[1 + (r - 1) % 8]

# Number `i` of a list: "1 3". Beyond its end 1, since gnuplot evaluates what an
# iteration over nothing would plot.
number(list, i) = i <= words(list) ? int(word(list, i)) : 1

# How many columns the legend has, and with that how high the picture is.
# Columns are wider than what gnuplot reserves for a letter, and for the sample
# before it: it would otherwise draw more rows than there is room for.
layout = "\
  longest = 1; \
  do for [i=1:|legend|] { \
    if (strlen(legend[i]) > longest) { longest = strlen(legend[i]) } \
  }; \
  columns = (width - 40) / (10 * longest + 110); \
  if (columns < 1) { columns = 1 }; \
  if (columns > |legend|) { columns = |legend| }; \
  height = title_height + 8 + \
           (|legend| + columns - 1) / columns * legend_row; \
  do for [i=1:words(panel_heights)] { \
    height = height + above_panel + number(panel_heights, i) + below_panel \
  }"

picture = "\
  if (kind eq 'svg') { \
    set terminal svg size width, height dynamic noenhanced \
        font 'sans-serif,14' background 'white' \
  } else { \
    set terminal pngcairo size 2 * width, 2 * height noenhanced \
        font 'sans-serif,14' fontscale 1.5 linewidth 2 pointscale 2 \
  }; \
  set output name.'.'.kind; \
  set multiplot title title font 'sans-serif,16'; \
  bottom = title_height; panel_number = 0"

# The next panel. Begins with nothing set but the house style.
panel = "\
  panel_number = panel_number + 1; \
  top = bottom + above_panel; \
  bottom = top + number(panel_heights, panel_number); \
  set tmargin at screen 1 - 1.0 * top / height; \
  set bmargin at screen 1 - 1.0 * bottom / height; \
  bottom = bottom + below_panel; \
  set title ''; \
  set xrange [*:*]; set yrange [*:*]; unset logscale; \
  set xtics autofreq; set ytics autofreq; \
  if (panel_number == words(panel_heights)) { \
    set key at screen 0.5, 8.0 / height bottom center horizontal \
        Left reverse maxcols columns \
  } else { unset key }"

set encoding utf8
set lmargin at screen 1.0 * left / width
set rmargin at screen 1 - 1.0 * right / width
set border 3 lc rgb '#444444'
set tics nomirror out
set grid lc rgb '#dddddd' lt 1 lw 0.7
set style fill solid noborder
set format y '%g'
set xlabel offset 0,0.6
set title offset 0,-0.4

