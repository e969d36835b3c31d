"""The code in the documents."""

import re
import shlex
import subprocess

import harness


def code_lines(document):
    """The lines of a document's code, indented or fenced, without comments."""
    fenced = False
    for line in (harness.ROOT / document).read_text().splitlines():
        if line.startswith("```"):
            fenced = not fenced
        elif fenced or line.startswith("    "):
            yield re.sub(r" +#.*", "", line.strip())


def commands(document, prompt):
    """The document's lines of code that begin with `prompt`, without the
    prompt."""
    return [re.sub(prompt, "", line, count=1) for line in code_lines(document)
            if re.match(prompt, line)]


def run_short(command, folder):
    """Runs a command of the tool in `folder`. A training takes 5 updates."""
    words = shlex.split(command)[1:]
    if words[0] == "demo":
        words[:1] = ["train", "configs/fashion_mnist_lenet.textproto"]
    if words[0] == "train":
        words += ["--set", "stop.updates=5"]
    return subprocess.run([harness.TOOL, *words], cwd=folder, text=True,
                          capture_output=True, timeout=harness.TIMEOUT_S)
