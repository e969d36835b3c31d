"""The test that caught each mutation when it was last tried.

A line of caught.tsv is a mutation: its rule, its change, the test that failed,
and a digest of the mutation, of the file that it changes and of the test's
file, but for their includes: where a header lies changes no rule. As long as
the digest is the same, the mutation need not be tried again.
"""

import csv
import hashlib
import re

FIELDS = ["rule", "what", "test", "digest"]


class Record:

    def __init__(self, root):
        self._root = root
        self._path = root / "tests/mutations/caught.tsv"
        self._rows = {}
        if self._path.exists():
            with self._path.open(newline="") as file:
                self._rows = {(row["rule"], row["what"]): row for row in
                              csv.DictReader(file, delimiter="\t")}

    def test_of(self, mutation):
        """The test that caught it last; "" if none is known."""
        return self._row(mutation).get("test", "")

    def holds(self, core, mutation):
        """Whether nothing about it has changed since it was caught."""
        row = self._row(mutation)
        return bool(row) and row["digest"] == self._digest(core, mutation,
                                                           row["test"])

    def keep(self, core, mutation, test):
        self._rows[mutation.rule, mutation.what] = {
            "rule": mutation.rule, "what": mutation.what, "test": test,
            "digest": self._digest(core, mutation, test)}

    def write(self, mutations):
        """Writes what is known about `mutations`, in their order."""
        with self._path.open("w", newline="") as file:
            writer = csv.DictWriter(file, FIELDS, delimiter="\t",
                                    lineterminator="\n")
            writer.writeheader()
            writer.writerows(self._row(m) for m in mutations if self._row(m))

    def _row(self, mutation):
        return self._rows.get((mutation.rule, mutation.what), {})

    def _digest(self, core, mutation, test):
        texts = [mutation.before, mutation.after, mutation.file,
                 self._text(mutation.file), self._source_of(core, test)]
        return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:16]

    def _source_of(self, core, test):
        """The text of the file that defines `test`: Suite.Name or, with
        parameters, Prefix/Suite.Name/0. A word on how it failed may follow."""
        suite, _, name = test.split(" ")[0].partition(".")
        named = re.compile(r"^(TYPED_)?TEST(_F|_P)?\(\s*"
                           rf"{re.escape(suite.split('/')[-1])},\s*"
                           rf"{re.escape(name.split('/')[0])}\)", re.MULTILINE)
        for source in core.sources:
            if source.endswith("_test.cc") and named.search(self._text(source)):
                return self._text(source)
        return ""

    def _text(self, path):
        return re.sub(r"^#include .*\n", "",
                      (self._root / path).read_text(), flags=re.MULTILINE)
