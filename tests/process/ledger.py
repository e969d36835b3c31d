"""Reads a commit log (proto/commit_log.proto) and checks that its books
balance."""

import collections
import struct

OUTCOMES = {1: "applied", 2: "cancelled", 3: "dropped", 4: "rejected",
            5: "lost"}


def _varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, at


def fields(data):
    """(number, value) of each field of a serialised message."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        kind = tag & 7
        if kind == 0:
            value, at = _varint(data, at)
        elif kind == 1:
            value, at = data[at:at + 8], at + 8
        elif kind == 5:
            value, at = data[at:at + 4], at + 4
        else:
            size, at = _varint(data, at)
            value, at = data[at:at + size], at + size
        yield tag >> 3, value


def logs(folder):
    """The first file of each generation's log, by generation."""
    def number(path):
        return int(path.name.partition("-")[2] or 1)
    return sorted((path for path in folder.glob("commit_log*")
                   if "." not in path.name), key=number)


def files(path):
    """The files of the log whose first one is `path`, in order."""
    later = path.parent.glob(path.name + ".*")
    return [path] + sorted(later, key=lambda file: int(file.suffix[1:]))


def records(path):
    """The records of all files."""
    for file in files(path):
        yield from records_of_file(file)


def records_of_file(path):
    data = path.read_bytes()
    at = 0
    while at < len(data):
        if at + 12 > len(data):
            break
        (size,) = struct.unpack_from("<I", data, at)
        if at + 12 + size > len(data):
            break  # A record that a crash has cut short.
        yield data[at + 12:at + 12 + size]
        at += 12 + size


Entry = collections.namedtuple(
    "Entry", ["worker", "first_batch", "staleness", "weight", "bases"])


def packed(data):
    """The varints of a packed field."""
    at, values = 0, []
    while at < len(data):
        value, at = _varint(data, at)
        values.append(value)
    return values


class Ledger:
    """What became of every task, according to a commit log.

    `issued`   key -> first mini-batch
    `ends`     key -> list of outcomes; a sound log has exactly one each
    `commits`  version -> list of first mini-batches, in summation order
    `entries`  every gradient of every commit, in order
    `order`    ("issued" | "applied", worker), in the log's order
    """

    def __init__(self, path):
        self.issued = {}
        self.ends = collections.defaultdict(list)
        self.commits = {}
        self.entries = []
        self.order = []
        self._shards = 1
        for record in records(path):
            for number, value in fields(record):
                if number == 2:
                    self._shards = dict(fields(value)).get(7, 1)
                elif number == 3:
                    key, task = self._keyed(value)
                    self.issued[key] = task.get(4, 0)
                    self.order.append(("issued", key[0]))
                elif number == 4:
                    key, end = self._keyed(value)
                    self.ends[key].append(OUTCOMES[end[4]])
                elif number == 5:
                    self._commit(value)

    @staticmethod
    def _keyed(value):
        fs = dict(fields(value))
        return (fs.get(1, 0), fs.get(2, 0), fs.get(3, 0)), fs

    def _commit(self, value):
        version = dict(fields(value))[1]
        batches = []
        for number, entry in fields(value):
            if number == 3:
                key, fs = self._keyed(entry)
                self.ends[key].append("applied")
                batches.append(fs.get(4, 0))
                self.order.append(("applied", key[0]))
                bases = packed(fs[6])
                if len(bases) == 1:  # The same base for all shards.
                    bases *= self._shards
                self.entries.append(Entry(
                    key[0], fs.get(4, 0), version - 1 - min(bases),
                    struct.unpack("<f", fs[7])[0], tuple(bases)))
        self.commits[version] = batches

    def count(self, outcome):
        return sum(ends.count(outcome) for ends in self.ends.values())

    def check_generation(self, test):
        """Checks one generation of a run, however it ended: no task has two
        verdicts, versions have no gap, and no mini-batch is in two updates."""
        for key, ends in self.ends.items():
            test.assertIn(key, self.issued)
            test.assertEqual(len(ends), 1, f"task {key}")
        versions = sorted(self.commits)
        test.assertEqual(versions, list(range(
            versions[0], versions[0] + len(versions))) if versions else [])
        applied = [b for c in self.commits.values() for b in c]
        test.assertEqual(len(applied), len(set(applied)))

    def check(self, test):
        """Checks that every task has exactly one verdict, that versions have
        no gap, and that no mini-batch is in two updates."""
        for key, first_batch in self.issued.items():
            test.assertEqual(len(self.ends[key]), 1,
                             f"task {key} of mini-batch {first_batch}")
        test.assertEqual(set(self.ends), set(self.issued))
        test.assertEqual(sorted(self.commits),
                         list(range(1, len(self.commits) + 1)))
        applied = [b for c in self.commits.values() for b in c]
        test.assertEqual(len(applied), len(set(applied)))
