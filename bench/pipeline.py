#!/usr/bin/python3 -B
"""How much faster does a worker of two processes train than one of one?

Two models, one thread a process, SYNC, one shard, one worker: VGG-16 on images
of 32 x 32 (synthetic), and a transformer of six blocks on text.

Expected of two stages, m micro-batches: the rate of the same computation in one
process, times

    (M1 + M2) / max(M1, M2) x m / (m + 1)

with M the multiply-adds of each stage (`sluice check`): its balance, and the
pipeline that fills and runs empty once a mini-batch. Reported are both beside
that limit, and beside one process at the micro-batch that is best for it (the
column `of_one`), and beside the rate that `sluice simulate` says, given the time
of one process with the same micro-batches (`of_simulated`). Mini-batches have
eight micro-batches. All take turns.
"""

import argparse
import json
import pathlib
import statistics
import tempfile

from peers import programs
from report import Report

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

    def sets(self, micro, stages):
        return [f"--set=data.batch_size={self.batch}",
                f"--set=stop={{updates: {self.args.updates + 1}}}",
                f"--set=worker.micro_batch={micro}",
                f"--set=worker.group.pipeline_stages={stages}",
                f"--set=worker.instruction_set={self.args.instruction_set}"]

    def rate(self, micro, stages):
        """Samples per second, from the times of the updates but the first."""
        self.runs += 1
        run = self.folder / f"run{self.runs}"
        programs.output_of([
            programs.built("cli/sluice"), "train", self.job,
            f"--run-dir={run}", *self.sets(micro, stages),
            "--set=output.metrics_every_s=0.1"])
        lines = [json.loads(line) for line in open(run / "metrics.jsonl")]
        first = next(line for line in lines if line["version"] >= 1)
        last = lines[-1]
        return ((last["version"] - first["version"]) * self.batch /
                (last["seconds"] - first["seconds"]))

    def limit(self, micro):
        """How many times one process's rate two stages reach at most."""
        checked = json.loads(programs.output_of([
            programs.built("cli/sluice"), "check", self.job, "--json",
            *self.sets(micro, 2)]))
        work = [member["multiply_adds"]
                for member in checked["worker"]["members"]]
        return sum(work) / max(work) * PASSES / (PASSES + 1)


    def simulated(self, micro, rate):
        """Samples per second of two stages in virtual time, where one process
        makes `rate`."""
        told = json.loads(programs.output_of([
            programs.built("cli/sluice"), "simulate", self.job, "--json",
            "--timing-only", "--updates=33", *self.sets(micro, 2),
            f"--set=delays.compute.constant.ms={1000 * self.batch / rate}"]))
        return self.batch * told["updates_per_second"]


def measure(name, args, report):
    text = MODELS[name]()
    batch, micro = args.batch, args.batch // PASSES
    with tempfile.TemporaryDirectory() as folder:
        trial = Trial(text, batch, args, folder)
        rounds = []
        for _ in range(args.rounds):
            one = {size: trial.rate(size, 1) for size in args.micro(batch)}
            rounds.append((trial.rate(micro, 2), one[micro],
                           max(one.values())))
        median = statistics.median
        same = median(same for _, same, _ in rounds)
        limit, simulated = trial.limit(micro), trial.simulated(micro, same)
    report.add(f"{name}, 2 stages", "samples/s", "the limit",
               limit * same, median(two for two, _, _ in rounds), limit=limit,
               of_one=median(two / best for two, _, best in rounds),
               of_simulated=median(two for two, _, _ in rounds) / simulated)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--tiny", action="store_true", help="a few seconds, once")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--updates", type=int, default=3,
                        help="of each run, after the first")
    parser.add_argument("--batch", type=int, default=256, help="samples")
    parser.add_argument("--models", nargs="+", choices=MODELS,
                        default=list(MODELS))
    parser.add_argument("--instruction-set", default="AVX2",
                        choices=["AVX2", "AVX512"])
    args = parser.parse_args()
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
