"""A rule, and a small change that breaks it."""

import dataclasses


@dataclasses.dataclass
class Mutation:
    rule: str    # As a person would state it.
    what: str    # The change, in words.
    file: str    # From the root of the tree.
    before: str  # Occurs exactly once in the file.
    after: str


@dataclasses.dataclass
class Core:
    sources: list  # Paths from the root; of the tests, the fast ones first.
    headers: list  # Globs from the root.
    mutations: list
    protos: list = dataclasses.field(default_factory=list)
    flags: list = dataclasses.field(default_factory=list)
    libraries: list = dataclasses.field(default_factory=list)
