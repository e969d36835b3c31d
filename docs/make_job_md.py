#!/usr/bin/python3 -B
"""Writes docs/job.md from the comments of proto/job.proto.

    docs/make_job_md.py            # writes it
    docs/make_job_md.py --check    # exit status 1 when it is out of date
"""

import argparse
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
PROTO = HERE.parent / "proto/job.proto"
OUTPUT = HERE / "job.md"

_OPEN = re.compile(r"\s*(message|enum|oneof) (\w+) \{(\})?$")
_FIELD = re.compile(r"\s*(?:(optional|repeated) )?([\w.]+) (\w+) = \d+;$")
_VALUE = re.compile(r"\s*(\w+) = \d+;$")


class Block:
    """A message, an enum or a oneof, with what stands in it, in order."""

    def __init__(self, kind, name, comment):
        self.kind, self.name, self.comment = kind, name, comment
        self.rows = []  # (name, type, comment), or a Block that is a oneof.
        self.blocks = []  # Messages and enums declared inside.


def parse(text):
    """The file's blocks in order. Raises ValueError at what it cannot read."""
    root = Block("file", "", "")
    stack, comment = [root], []
    body = text[text.index("message "):]
    before = text[:text.index("message ")]
    root.comment = comment_of(
        [l for l in before.splitlines() if l.startswith("//")])
    trailing = before.rstrip().splitlines()[-1]
    if trailing.startswith("//"):
        raise ValueError("the first message has a comment: read it too")
    for line in body.splitlines():
        opened = _OPEN.match(line)
        if line.strip().startswith("//"):
            comment.append(line)
            continue
        if not line.strip():
            comment = []
            continue
        if opened:
            block = Block(opened[1], opened[2], comment_of(comment))
            if block.kind == "oneof":
                stack[-1].rows.append(block)
            else:
                stack[-1].blocks.append(block)
            if not opened[3]:
                stack.append(block)
        elif line.strip() == "}":
            stack.pop()
        else:
            stack[-1].rows.append(row_of(line, comment_of(comment)))
        comment = []
    return root


def row_of(line, comment):
    value, field = _VALUE.match(line), _FIELD.match(line)
    if value:
        return (value[1], "", comment)
    if field:
        repeated = "repeated " if field[1] == "repeated" else ""
        return (field[3], repeated + field[2], comment)
    raise ValueError(f"not understood: {line!r}")


def comment_of(lines):
    return " ".join(re.sub(r"^\s*// ?", "", line) for line in lines).strip()


def cell(text):
    return text.replace("|", "\\|").replace("*", "\\*")


def write(block, names, out):
    out.append(f"\n## {block.name}\n")
    if block.comment:
        out.append(cell(block.comment) + "\n")
    rows = flat_rows(block)
    if block.kind == "enum":
        out.append("| value | meaning |\n| --- | --- |")
        out += [f"| `{name}` | {cell(comment)} |" for name, _, comment in rows
                if not name.endswith("_UNSPECIFIED")]
    elif rows:
        out.append("| field | type | meaning |\n| --- | --- | --- |")
        out += [f"| `{name}` | {link(kind, names)} | {cell(comment)} |"
                for name, kind, comment in rows]
    else:
        out.append("No fields: `{}`.")
    out.append("")
    for inner in block.blocks:
        write(inner, names, out)


def flat_rows(block):
    rows = []
    for row in block.rows:
        if isinstance(row, Block):
            rows += [(name, kind, "One of these. " + comment
                      if i == 0 else comment)
                     for i, (name, kind, comment) in enumerate(row.rows)]
        else:
            rows.append(row)
    return rows


def link(kind, names):
    word = kind.split()[-1]
    return kind.replace(word, f"[{word}](#{word.lower()})") if (
        word in names) else kind


def all_names(block):
    return [name for inner in block.blocks
            for name in [inner.name, *all_names(inner)]]


def document(text):
    root = parse(text)
    out = ["# The job file\n",
           "Made by `docs/make_job_md.py` from "
           "[proto/job.proto](../proto/job.proto); edit that.\n",
           cell(root.comment)]
    names = set(all_names(root))
    for block in root.blocks:
        write(block, names, out)
    return re.sub(r"\n{3,}", "\n\n", "\n".join(out)).rstrip() + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    made = document(PROTO.read_text())
    if not args.check:
        OUTPUT.write_text(made)
    elif not OUTPUT.exists() or OUTPUT.read_text() != made:
        sys.exit(f"{OUTPUT} is out of date; run docs/make_job_md.py")


if __name__ == "__main__":
    main()
