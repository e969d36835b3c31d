#!/usr/bin/python3 -B
"""Draws one task of a worker of several processes: when each member computed
forward, backward, and waited; with --slots also what it computed for the group's
other slots meanwhile. From the timeline.json of a run with --timeline."""

import argparse
import json
import pathlib

WIDTH, ROW, BAR, LEFT, TOP = 900, 44, 28, 90, 34  # Pixels.
# Stage -> its colour; what is not here is left blank.
COLOURS = {"pull": "#b0b0b0", "forward": "#4477aa", "backward": "#ccbb44",
           "push": "#888888"}


def read(path):
    """The events of a timeline, whose array may lack its end."""
    return json.loads(path.read_text().rstrip().rstrip(",") + "]")


def members_of(events, worker):
    """Number -> name of the processes of a worker. Raises ValueError where it
    has none."""
    names = {e["pid"]: e["args"]["name"] for e in events
             if e["name"] == "process_name"}
    found = {pid: name for pid, name in sorted(names.items())
             if name.startswith(f"worker {worker} member ")}
    if not found:
        raise ValueError(f"expected members of worker {worker}, has none")
    return found


def bars_of(events, members, number):
    """Member -> (stage, begin, end, text) in its task `number`, by the machine's
    clock, in seconds. Raises ValueError where there is no such task."""
    bars = {}
    for pid in members:
        tasks = [e for e in events if e["pid"] == pid and e["name"] == "task"
                 and e["args"]["outcome"] == "delivered"]
        if not -len(tasks) <= number < len(tasks):
            raise ValueError(f"expected task {number} of {members[pid]}, which "
                             f"delivered {len(tasks)}")
        task = tasks[number]
        begin, end = task["ts"], task["ts"] + task["dur"]
        bars[pid] = [(e["name"], e["ts"] / 1e6, (e["ts"] + e["dur"]) / 1e6, "")
                     for e in events
                     if e["pid"] == pid and e["name"] in COLOURS
                     and begin <= e["ts"] < end and e["tid"] == 0]
    return bars


def bars_of_slots(events, slots, window):
    """The same of all `slots` in a window of time, and of passes alone. `slots`:
    worker -> its members; each has as many. The text is the worker."""
    begin, end = window
    first, *_ = slots.values()
    bars = {pid: [] for pid in first}
    for worker, members in slots.items():
        for row, pid in zip(first, members):
            bars[row] += [
                (e["name"], max(begin, e["ts"] / 1e6),
                 min(end, (e["ts"] + e["dur"]) / 1e6), str(worker))
                for e in events
                if e["pid"] == pid and e["name"] in ("forward", "backward")
                and e["tid"] == 0 and e["ts"] / 1e6 < end
                and (e["ts"] + e["dur"]) / 1e6 > begin]
    return bars


def window_of(bars):
    return (min(b for rows in bars.values() for _, b, _, _ in rows),
            max(e for rows in bars.values() for _, _, e, _ in rows))


def nice_step(seconds):
    """A round step that makes four to ten of `seconds`."""
    step = 10.0
    while seconds / step < 4:
        for factor in (2, 2.5, 2):
            step /= factor
            if seconds / step >= 4:
                break
    return step


def draw(members, bars):
    first, last = window_of(bars)
    scale = (WIDTH - LEFT - 20) / (last - first)
    bottom = TOP + ROW * len(members)
    svg = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" '
           f'height="{bottom + 40}" font-family="sans-serif" font-size="13">',
           '<rect width="100%" height="100%" fill="white"/>']
    at = LEFT
    for stage, colour in COLOURS.items():
        svg.append(f'<rect x="{at}" y="9" width="14" height="14" fill="{colour}"/>'
                   f'<text x="{at + 19}" y="21">{stage}</text>')
        at += 110
    for row, (pid, name) in enumerate(members.items()):
        y = TOP + ROW * row + (ROW - BAR) / 2
        svg.append(f'<text x="8" y="{y + BAR / 2 + 5}">'
                   f'{name.split(" ", 2)[2]}</text>')
        for stage, begin, end, text in bars[pid]:
            x, width = LEFT + (begin - first) * scale, (end - begin) * scale
            svg.append(
                f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{BAR}" '
                f'fill="{COLOURS[stage]}" stroke="white" stroke-width="0.5"/>')
            if text and width > 9:
                svg.append(f'<text x="{x + width / 2:.1f}" y="{y + BAR / 2 + 4}" '
                           f'font-size="11" text-anchor="middle" fill="white">'
                           f'{text}</text>')
    step = nice_step(last - first)
    for tick in range(int((last - first) / step) + 1):
        x = LEFT + tick * step * scale
        svg.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{bottom + 5}" '
                   'stroke="#cccccc" stroke-width="0.5"/>'
                   f'<text x="{x:.1f}" y="{bottom + 20}" text-anchor="middle">'
                   f'{tick * step:g}</text>')
    svg.append(f'<text x="{WIDTH - 20}" y="{bottom + 36}" text-anchor="end">'
               'seconds</text></svg>')
    return "\n".join(svg) + "\n"


def picture(args):
    """The SVG that is asked for. Raises OSError, ValueError."""
    events = read(args.timeline)
    members = members_of(events, args.worker)
    bars = bars_of(events, members, args.task)
    if args.slots:
        slots = {worker: members_of(events, worker) for worker in args.slots}
        members = next(iter(slots.values()))
        bars = bars_of_slots(events, slots, window_of(bars))
    return draw(members, bars)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("timeline", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--worker", type=int, default=0)
    parser.add_argument("--slots", type=int, nargs="+", metavar="WORKER",
                        help="the group's workers, of which --worker is one: "
                        "each pass bears its worker's number")
    parser.add_argument("--task", type=int, default=-1,
                        help="the worker's n-th from 0; default: its last")
    args = parser.parse_args()
    try:
        args.out.write_text(picture(args))
    except OSError as error:
        parser.error(str(error))
    except ValueError as error:
        parser.error(f"{args.timeline}: {error}")


if __name__ == "__main__":
    main()
