"""A run whose daemons are started by hand, with certificates."""

import by_hand
import harness


def certs(folder, *args, job="linear"):
    result = harness.tool("certs", folder, f"--job={job}", "--hosts=localhost",
                          *args)
    if result.returncode != 0:
        raise AssertionError(result.stderr)
    return folder


def role_of(name):
    return {"shard 0": "lead", "shard 1": "shard",
            "evaluator": "evaluator"}.get(name, "worker")


class TlsRun(by_hand.ByHand):
    """The daemons with the certificates in a folder."""

    def __init__(self, folder, **kwargs):
        self.operator = [f"--tls={folder / 'operator'}"]
        super().__init__(
            flags=lambda name: [f"--tls={folder / role_of(name)}"], **kwargs)
