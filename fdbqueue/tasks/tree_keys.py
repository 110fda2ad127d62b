"""Where groups and chains are stored.

What is enqueued as one is a *tree*. Its *branches* are groups and chains; branch 0 is the whole.
The *parts* of a branch are tasks, or branches of their own; what follows a group is its part behind
the last. Under ``(*PREFIX, "tasks", "tree", id)``:

    ("branch", n)           what branch n is, how many parts it has, and which part it is itself;
                            that of the whole says which queues all tasks are of, unless these are
                            very many
    ("part", n, at)         a part: a task's id, path and queue, and whether it is enqueued; or the
                            number of a branch
    ("call", n, at, k)      how to enqueue the task, as long as it has not been: JSON in chunks;
                            with what makes its key, if the value that it is given is part of that
    ("ended", n, level, j)  which of 16 parts have ended, and which of them successfully: two sets
                            of bits; a level above, of which sixteen that is so
    ("outcome", n)          how branch n has ended
    ("follower", n)         how what follows group n has ended
    ("waiting", n)          a group whose parts are being enqueued, and from which on
    ("given", n, k)         what each of them is given as its first argument
    ("abort",)              the whole was aborted
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fdb.subspace_impl import Subspace

_CHUNK_BYTES = 90_000


def group_id(tree: str, branch: int) -> str:
    """Return the id of a group or a chain: its tree's, and its number if it is not all."""
    return tree if branch == 0 else f"{tree}.{branch}"


class TreeKeys:
    """Where a tree is stored.

    Args:
        prefix: The tuple that all keys of the setting start with.
        tree: The id of the tree.
    """

    def __init__(self, prefix: tuple[Any, ...], tree: str) -> None:
        self.all = Subspace((*prefix, "tasks", "tree", tree))
        self.abort: bytes = self.all.pack(("abort",))
        self.waiting, self.follower = self.all["waiting"], self.all["follower"]

    def branch(self, branch: int) -> bytes:
        """Return the key that says what a branch is."""
        key: bytes = self.all.pack(("branch", branch))
        return key

    def part(self, branch: int, at: int) -> bytes:
        """Return the key of a part."""
        key: bytes = self.all.pack(("part", branch, at))
        return key

    def ended(self, branch: int, level: int, number: int) -> bytes:
        """Return the key of the bits of 16 parts, or of what is below."""
        key: bytes = self.all.pack(("ended", branch, level, number))
        return key

    def outcome(self, branch: int) -> bytes:
        """Return the key that says how a branch has ended."""
        key: bytes = self.all.pack(("outcome", branch))
        return key


def chunks_of(within: Subspace, data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield the rows of something long."""
    for number, start in enumerate(range(0, len(data), _CHUNK_BYTES)):
        yield within.pack((number,)), data[start : start + _CHUNK_BYTES]


def range_of(within: Subspace) -> tuple[bytes, bytes]:
    """Return where a subspace begins and ends."""
    return within.range().start, within.range().stop
