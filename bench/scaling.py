#!/usr/bin/python3 -B
"""What is left of linear scaling with more workers?

Efficiency is the rate at which n workers' gradients are applied, beside n times the
rate of one. First real daemons on this machine: in each task 100 ms pass in place of
computing (and some for 8 samples of an MLP with 235,000 weights), so that only what
Sluice adds is seen. Expected is 0.95: an update of one worker takes some 2 ms
beside the delay, and of eight not much more, as long as two cores are enough.

Then virtual time: ResNet-50's 25.6 million weights, 232 ms for 32 images (Goyal
et al. 2017 train 90 epochs in 29 hours on 8 GPUs), on n hosts with a worker, a
shard and a link each. A task pulls, computes and pushes one after the other there, so
expected is

    T / (T + 2 W / B)      W bytes of weights, B bytes a second

for any n: each shard has an n-th of the weights, which n workers pull. Goyal et
al. reach 0.90 from 8 to 256 GPUs over 50 Gbit/s for 8 of them, and overlap. With
times that vary (log-normal, sigma 0.1) SYNC waits for the slowest; K_SYNC with a K
of 0.94 n does not, and drops the rest; ASYNC waits for nobody.
"""

import argparse
import json
import pathlib
import tempfile

from peers import programs
from report import Report, updates_from, whole

MLP = programs.ROOT / "configs/fashion_mnist_mlp.textproto"
RESNET = programs.ROOT / "configs/synthetic_resnet50.textproto"
DELAY_MS = 100
STEP_MS, SIGMA = 232, 0.1
LATENCY_MS = 0.02
SPARE = 1 / 16  # Of the workers, for which K_SYNC does not wait.
COLOURS = ["#4477aa", "#66ccee", "#228833", "#ccbb44", "#ee6677", "#aa3377"]


def daemons(policy, workers, updates):
    """Gradients applied per second, of a run's second half."""
    per_round = 1 if policy == "SYNC" else workers
    with tempfile.TemporaryDirectory() as folder:
        run = pathlib.Path(folder, "run")
        programs.output_of([
            programs.built("cli/sluice"), "train", MLP, f"--run-dir={run}",
            f"--workers={workers}", "--shards=1",
            f"--set=sync={{policy: {policy}}}", "--set=data.batch_size=8",
            "--set=optimizer.learning_rate=0.001",
            f"--set=delays.compute.constant.ms={DELAY_MS}",
            "--set=evaluation.enabled=false", "--set=output.metrics_every_s=0.01",
            f"--set=stop={{updates: {updates * per_round}}}"])
        first, last = updates_from(run, updates // 2 * per_round)
        return ((last["gradients"]["applied"] - first["gradients"]["applied"]) /
                (last["seconds"] - first["seconds"]))


def simulated(policy, workers, gbit, sigma, args):
    k = max(1, round(workers * (1 - SPARE)))
    compute = (f"log_normal {{ median_ms: {STEP_MS} sigma: {sigma} }}" if sigma
               else f"constant {{ ms: {STEP_MS} }}")
    link = gbit * 1e9 / 8
    return json.loads(programs.output_of([
        programs.built("cli/sluice"), "simulate", RESNET, "--timing-only",
        "--json", f"--workers={workers}", f"--shards={workers}",
        f"--updates={args.updates * (workers if policy == 'ASYNC' else 1)}",
        f"--set=sync={{policy: {policy}{f' k: {k}' * (policy == 'K_SYNC')}}}",
        f"--set=delays={{ compute {{ {compute} }} "
        f"latency {{ constant {{ ms: {LATENCY_MS} }} }} "
        f"worker_bandwidth: {link} shard_bandwidth: {link} }}"]))


def real_rows(report, args):
    for policy in ("SYNC", "ASYNC"):
        alone = None
        for workers in args.workers:
            rate = daemons(policy, workers, args.real_updates)
            alone = alone or rate / workers  # Of the fewest, if not of one.
            report.add(f"daemons, {policy}, {workers} workers", "of linear",
                       "0.95", 0.95, rate / (workers * alone),
                       gradients_per_second=rate,
                       of_the_delay=rate / workers * DELAY_MS / 1e3)


def virtual_rows(report, args):
    curves = {}
    for policy, gbit, sigma in [("SYNC", 10, 0), ("SYNC", 25, 0),
                                ("SYNC", 100, 0), ("SYNC", 100, SIGMA),
                                ("K_SYNC", 100, SIGMA),
                                ("ASYNC", 100, SIGMA)]:
        name = f"{policy}, {gbit} Gbit/s" + (", varying" if sigma else "")
        for workers in args.virtual_workers:
            run = simulated(policy, workers, gbit, sigma, args)
            # The gradients of an update, and how many an update takes.
            rate = run["k"] / run["mean_update_time"]
            weights = sum(run["pull_bytes"]) / max(1, run["started"])
            step = STEP_MS / 1e3
            expected = step / (step + 2 * 4 * args.floats * 8 / (gbit * 1e9))
            efficiency = rate * step / workers
            curves.setdefault(name, []).append((workers, efficiency))
            report.add(f"{name}, {workers} workers", "of linear",
                       "T / (T + 2 W / B)", expected, efficiency,
                       update_ms=1e3 * run["mean_update_time"],
                       pulled_mb_a_task=weights / 1e6, wasted=run["wasted"])
    return curves


def draw(curves, path):
    """Efficiency against workers, on a logarithmic axis, as SVG."""
    width, height, left, top, right = 720, 360, 60, 20, 260
    workers = [w for w, _ in next(iter(curves.values()))]
    inner = width - left - right
    x = {w: left + inner * i / max(1, len(workers) - 1)
         for i, w in enumerate(workers)}
    bottom = height - 50
    def y(share):
        return bottom - (bottom - top) * share
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" '
             f'height="{height}" font-family="sans-serif" font-size="12">',
             f'<rect width="{width}" height="{height}" fill="white"/>']
    for share in (0, 0.25, 0.5, 0.75, 0.9, 1):
        dash = ' stroke-dasharray="4 3"' if share == 0.9 else ""
        parts.append(f'<line x1="{left}" x2="{left + inner}" y1="{y(share):.1f}" '
                     f'y2="{y(share):.1f}" stroke="#cccccc"{dash}/>'
                     f'<text x="{left - 8}" y="{y(share) + 4:.1f}" '
                     f'text-anchor="end">{share:g}</text>')
    for w in workers:
        parts.append(f'<text x="{x[w]:.1f}" y="{bottom + 18}" '
                     f'text-anchor="middle">{w}</text>')
    parts.append(f'<text x="{left + inner / 2}" y="{height - 12}" '
                 'text-anchor="middle">workers, each with a shard</text>')
    for number, (name, points) in enumerate(curves.items()):
        colour = COLOURS[number % len(COLOURS)]
        line = " ".join(f"{x[w]:.1f},{y(share):.1f}" for w, share in points)
        at = top + 20 + 20 * number
        parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" '
                     'stroke-width="2"/>'
                     f'<line x1="{left + inner + 12}" x2="{left + inner + 32}" '
                     f'y1="{at - 4}" y2="{at - 4}" stroke="{colour}" '
                     'stroke-width="2"/>'
                     f'<text x="{left + inner + 38}" y="{at}">{name}</text>')
    at = top + 20 + 20 * len(curves)
    parts.append(f'<text x="{left + inner + 12}" y="{at}" fill="#666666">'
                 'dashed: Goyal et al. 2017</text></svg>')
    path.write_text("\n".join(parts) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--tiny", action="store_true", help="few workers, once")
    parser.add_argument("--workers", type=whole, nargs="+", default=[1, 2, 4, 8],
                        help="of the daemons")
    parser.add_argument("--real-updates", type=whole, default=60)
    parser.add_argument("--virtual-workers", type=whole, nargs="+",
                        default=[1, 4, 16, 64, 256])
    parser.add_argument("--updates", type=int, default=33,
                        help="of all workers, measured in virtual time")
    parser.add_argument("--floats", type=int, default=25_583_592,
                        help="of ResNet-50 with its statistics")
    parser.add_argument("--svg", type=pathlib.Path, help="where to draw it")
    args = parser.parse_args()
    if args.real_updates < 2:  # Their second half is measured.
        parser.error("--real-updates: expected 2 or more, got "
                     f"{args.real_updates}")
    args.workers.sort()
    args.virtual_workers.sort()
    if args.tiny:
        args.workers, args.real_updates = [1, 2], 4
        args.virtual_workers = [1, 2]
    report = Report("scaling", __doc__.splitlines()[0])
    real_rows(report, args)
    curves = virtual_rows(report, args)
    if args.svg:
        draw(curves, args.svg)
    report.note(f"daemons: {DELAY_MS} ms in place of computing; virtual time: "
                f"{STEP_MS} ms a step, a shard for each worker")
    report.print(args.json)


if __name__ == "__main__":
    main()
