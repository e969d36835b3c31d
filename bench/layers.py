#!/usr/bin/python3 -B
"""How fast is each layer that only moves memory, beside PyTorch?

Activations and norms, forward and backward, on one thread with the same vector
instructions and the same arrays, in turns; medians of the rounds' ratios.
Expected: the rate of PyTorch or more, as both are bounded by the arithmetic of
exponentials and by the caches. PyTorch allocates its results, Sluice writes
them where they stay.
"""

import argparse
import json
import statistics
import sys

from peers import programs
from report import Report, whole


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--tiny", action="store_true", help="a few seconds, once")
    parser.add_argument("--rounds", type=whole, default=5)
    parser.add_argument("--instruction-set", default="AVX2",
                        choices=["AVX2", "AVX512"], help="of both")
    args = parser.parse_args()
    report = Report("layers", __doc__.splitlines()[0])
    if not programs.has_torch():
        report.note("SKIPPED: PyTorch (python3-torch is not installed)")
        report.print(args.json)
        return
    ours = [programs.built("bench/kernels"), "--json",
            *(["--avx512"] if args.instruction_set == "AVX512" else []),
            *(["--tiny"] if args.tiny else [])]
    theirs = programs.torch("torch_layers", args.instruction_set)
    rounds = []
    for _ in range(1 if args.tiny else args.rounds):
        mine = json.loads(programs.output_of(ours))
        peer = json.loads(programs.output_of(theirs))
        rates = {row["what"]: row["measured"] for row in mine["rows"]}
        missing = peer["rows"].keys() - rates.keys()
        if missing:
            sys.exit(f"bench kernels has no rows {sorted(missing)}")
        rounds.append({name: (rates[name], rate)
                       for name, rate in peer["rows"].items()})
    for name in rounds[0]:
        measured = statistics.median(r[name][0] for r in rounds)
        ratio = statistics.median(r[name][0] / r[name][1] for r in rounds)
        report.add(name, "GB/s", "PyTorch", measured / ratio, measured)
    for note in [*mine["notes"], peer["device"]]:
        report.note(note)
    report.print(args.json)


if __name__ == "__main__":
    main()
