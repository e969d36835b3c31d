"""The rules that make up each guarantee, and the process tests that show it."""

import dataclasses


@dataclasses.dataclass
class Guarantee:
    number: int
    name: str
    daemons: list  # Tests of whole runs, in tests/process.
    rules: list  # Full names of rules in the mutations.


GUARANTEES = [
    Guarantee(1, "one decision", ["sync_bits_test", "policies_test"], [
        "decisions are numbered from 1",
        "everything is executed before all may go",
        "a shard that stands elsewhere is found out",
        "decisions are executed in order",
        "a decision is executed once",
        "a shard that cannot execute stops",
        "a Commit that names a missing slice is a fault",
        "a Commit makes the next version",
        "an update sums in the order of its entries",
        "a slice is staged when its last chunk is here",
    ]),
    Guarantee(2, "exactly once", ["policies_test", "worker_failures_test"], [
        "a mini-batch is in one update",
        "a cancelled mini-batch goes out again",
        "Ready for an ended task is refused",
        "every life has its own incarnation",
        "a new incarnation ends the older task",
        "a repeated acknowledgement changes nothing",
        "a repeated chunk counts once",
        "a Ready is handed on once",
        "a gradient is in an update once",
        "late chunks of an ended task are refused",
        "a repeated message is recognised",
        "what is unacknowledged is sent again",
        "a new life numbers its messages from one",
        "a worker that stays begins without tasks",
        "a worker that stays begins without a gradient",
    ]),
    Guarantee(3, "consistent weights", ["identities_test", "sync_bits_test"], [
        "synchronous tasks pull exactly their version",
        "no read is torn",
        "no read of an old version is torn",
        "only the newest and pinned versions can be read",
        "a pinned version is never ended",
        "an exact pull gets its version",
        "a pull waits for a version that is not there yet",
        "a slice is of one version",
        "an exact pull accepts its version only",
        "a slice has no gaps or repeats",
        "a slice that ends early is noticed",
        "a shard takes the weights of the checkpoint",
        "a shard takes the optimizer's state of the checkpoint",
        "a shard that stays begins with an empty memory",
    ]),
    Guarantee(5, "replay", ["replay_test", "simulate_test"], [
        "digests are taken of every so-many-th version",
        "a digest is of the whole tensor",
        "a digest is of its tensor alone",
        "a digest is of what the shard holds",
    ]),
    Guarantee(6, "no silent loss", [
        "worker_failures_test", "long_run_test", "bad_gradients_test"], [
        "DROP: a dropped gradient is counted as dropped",
        "an end is recorded before it is sent",
        "what was not applied is discarded",
        "running tasks are cancelled at the end",
        "ready gradients outlive their worker",
        "SKIP leaves the mini-batch out",
        "a push may be repeated after a later task has ended",
        "tasks that were cut off are counted as lost",
    ]),
    Guarantee(7, "no wait without a deadline and a named culprit", [
        "part_failures_test", "worker_failures_test",
        "bad_surroundings_test"], [
        "who is silent for a lease is dead",
        "a task has a deadline",
        "WAIT on shortage fails after the timeout",
        "effective K: the last update takes what is left",
        "a shard that dies ends the generation",
        "at most commit_window versions are unexecuted",
        "what a silent peer is owed is bounded",
        "who cannot be reached is given up and named",
        "the wait between two attempts is bounded",
        "everybody hears that the generation is over",
        "a shard that is back without its memory ends the generation",
        "generations that come no further are counted",
    ]),
    Guarantee(8, "bad input is refused at the door", [
        "refusals_test", "bad_gradients_test", "bad_input_test"], [
        "a malformed Ready is refused",
        "what an older incarnation says is refused",
        "a connected id is taken",
        "keys carry the generation",
        "an ungranted push is refused",
        "a grant is for the holder of one certificate",
        "a push of another generation is refused",
        "a slice of the wrong size is refused",
        "a chunk beside the grid is refused",
        "NaN and infinity are refused",
        "a wrong checksum is noticed",
        "a fresh shard accepts only Restore",
        "a pull of another generation is refused",
        "a gap in the messages is refused",
        "an acknowledgement of what was never sent is refused",
    ]),
]
