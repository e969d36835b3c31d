#!/usr/bin/python3 -B
"""How much faster does a worker of two processes train than one of one?

Two models, one thread a process, SYNC, one shard, one worker: VGG-16 on images
of 32 x 32 (synthetic), and a transformer of six blocks on text.

The models are cut by measured times (`sluice check --profile`). Expected of two
stages, m micro-batches: the rate of the same computation in one process, times
what the profile says, about

    (T1 + T2) / max(T1, T2) x m / (m + 1)

with T the time of each stage: its balance, and the pipeline that fills and runs
empty once a mini-batch. With three slots under ASYNC the next tasks fill that, and
the balance alone is left. Reported are both beside that limit, and beside one
process at the micro-batch that is best for it (the column `of_one`), and beside
the rate that `sluice simulate` says, given the profile's times (`of_simulated`).
`profiled`: the time of a mini-batch by the profile, of that in one process.
Mini-batches have eight micro-batches. All take turns.
"""

import argparse
import json
import pathlib
import shutil
import statistics
import tempfile

from peers import programs
from report import Report, updates_from, whole

PASSES = 8  # Of a mini-batch.
TEXT = "the quick brown fox jumps over the lazy dog, and nobody minds. " * 4000


def vgg16():
    layers = ""
    for channels, times in ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)):
        layers += times * (
            "layer { conv2d { channels: %d kernel: 3 padding: 1 bias: false } }"
            " layer { batch_norm {} } layer { relu {} } " % channels)
        layers += "layer { max_pool { kernel: 2 } } "
    return """
        data { synthetic_images { channels: 3 height: 32 width: 32 classes: 10
                                  train_samples: 20000 test_samples: 100 } }
        model { %s layer { flatten {} } layer { dense { units: 10 } } }
    """ % layers


def transformer():
    return """
        data { text { train: "text" test: "text" length: 128 } }
        worker { clip_norm: 1 }
        model {
          layer { embedding { features: 192 } }
          layer { repeat { times: 6
            layer { residual {
              layer { layer_norm {} } layer { dense { units: 576 } }
              layer { attention { heads: 6 } } layer { dense { units: 192 } } } }
            layer { residual {
              layer { layer_norm {} } layer { dense { units: 768 } }
              layer { gelu {} } layer { dense { units: 192 } } } } } }
          layer { layer_norm {} }
          layer { tied_output {} } }
    """


SLOTS = 3  # Under ASYNC; 1 slot is under SYNC.
MODELS = {"VGG-16": vgg16, "transformer": transformer}


class Trial:
    """One model in a folder of its own."""

    def __init__(self, text, batch, args, folder):
        self.folder, self.batch, self.args = pathlib.Path(folder), batch, args
        (self.folder / "text").write_text(TEXT)
        self.job = self.folder / "job.textproto"
        self.job.write_text(
            text.replace('"text"', f'"{self.folder}/text"') +
            "cluster { workers: 1 shards: 1 } evaluation { enabled: false } "
            "sync { policy: SYNC } optimizer { learning_rate: 0.001 }")
        self.runs = 0

    def sets(self, micro, group="{pipeline_stages: 1}", slots=1):
        """`slots`: above 1 they are under ASYNC."""
        if slots > 1:
            group = group[:-1] + f" slots: {slots}}}"
        return [f"--set=data.batch_size={self.batch}",
                f"--set=cluster.workers={slots}",
                f"--set=sync={{policy: {'ASYNC' if slots > 1 else 'SYNC'}}}",
                f"--set=stop={{updates: {(self.args.updates + 1) * slots}}}",
                f"--set=worker.micro_batch={micro}",
                f"--set=worker.group={group}",
                f"--set=worker.instruction_set={self.args.instruction_set}"]

    def rate(self, micro, group="{pipeline_stages: 1}", timeline=None, slots=1):
        """Samples per second, from the times of the updates but each slot's
        first. `timeline`: where to keep when each member did what."""
        self.runs += 1
        run = self.folder / f"run{self.runs}"
        programs.output_of([
            programs.built("cli/sluice"), "train", self.job,
            f"--run-dir={run}", *self.sets(micro, group, slots),
            *(["--timeline"] if timeline else []),
            "--set=output.metrics_every_s=0.01"])
        if timeline:
            shutil.copy(run / "timeline.json", timeline)
        first, last = updates_from(run, slots)
        return ((last["version"] - first["version"]) * self.batch /
                (last["seconds"] - first["seconds"]))

    def profile(self, micro):
        """How long layers take while both cores compute, and where that cuts the
        model in two."""
        return json.loads(programs.output_of([
            programs.built("cli/sluice"), "check", self.job, "--json",
            "--profile", "--at-once=2",
            *self.sets(micro, "{pipeline_stages: 2}")]))["profile"]

    def simulated(self, micro, group, profile, slots=1):
        """Samples per second of two stages in virtual time."""
        stages = " ".join(
            f"stage {{forward: {stage['forward_seconds']} "
            f"backward: {stage['backward_seconds']}}}"
            for stage in profile["by_time"]["stages"])
        told = json.loads(programs.output_of([
            programs.built("cli/sluice"), "simulate", self.job, "--json",
            "--timing-only", "--updates=33", *self.sets(micro, group, slots),
            "--set=delays={compute {constant {ms: "
            f"{1000 * profile['batch_seconds']}}}}} {stages}}}"]))
        return self.batch * told["updates_per_second"]


def measure(name, args, report):
    text = MODELS[name]()
    batch, micro = args.batch, args.batch // PASSES
    with tempfile.TemporaryDirectory() as folder:
        trial = Trial(text, batch, args, folder)
        profile = trial.profile(micro)
        cut = profile["by_time"]
        group = f"{{pipeline_stages: 2 cuts: {json.dumps(cut['cuts'])}}}"
        rounds = []
        for _ in range(args.rounds):
            one = {size: trial.rate(size) for size in args.micro(batch)}
            split = {slots: trial.rate(micro, group, args.timelines and
                                     args.timelines / f"{name}_{slots}.json",
                                     slots)
                   for slots in (1, SLOTS)}
            rounds.append((split, one[micro], max(one.values())))
        median = statistics.median
        same = median(same for _, same, _ in rounds)
        for slots in (1, SLOTS):
            two = median(split[slots] for split, _, _ in rounds)
            # Slots leave no bubble: the largest stage decides.
            limit = cut["limit"] if slots == 1 else 2 * cut["balance"]
            simulated = trial.simulated(micro, group, profile, slots)
            report.add(f"{name}, 2 stages, {slots} slots", "samples/s",
                       "the limit", limit * same, two, limit=limit,
                       of_one=median(split[slots] / best
                                     for split, _, best in rounds),
                       of_simulated=two / simulated,
                       profiled=profile["batch_seconds"] * same / batch)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--tiny", action="store_true", help="a few seconds, once")
    parser.add_argument("--rounds", type=whole, default=3)
    parser.add_argument("--updates", type=whole, default=3,
                        help="of each run, after the first")
    parser.add_argument("--batch", type=whole, default=256,
                        help=f"samples, a multiple of {PASSES}")
    parser.add_argument("--timelines", type=pathlib.Path, metavar="DIR",
                        help="keep MODEL_SLOTS.json of each model's last "
                        "pipelines in this folder")
    parser.add_argument("--models", nargs="+", choices=MODELS,
                        default=list(MODELS))
    parser.add_argument("--instruction-set", default="AVX2",
                        choices=["AVX2", "AVX512"])
    args = parser.parse_args()
    if args.batch % PASSES:
        parser.error(f"--batch: expected a multiple of {PASSES}, which are its "
                     f"micro-batches, got {args.batch}")
    if args.timelines:
        args.timelines.mkdir(parents=True, exist_ok=True)
    args.micro = lambda batch: sorted({batch // PASSES, batch // 2, batch})
    if args.tiny:
        args.rounds, args.updates, args.batch = 1, 1, 8
        args.models = ["transformer"]
        args.micro = lambda batch: [batch // PASSES]
    report = Report("pipeline", __doc__.splitlines()[0])
    for name in args.models:
        measure(name, args, report)
    report.note("limit: times the rate of one process, by balance and bubble")
    report.print(args.json)


if __name__ == "__main__":
    main()
