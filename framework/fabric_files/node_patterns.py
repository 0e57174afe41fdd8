"""Nodes of a fabric file by name, and several at once by patterns such as `g0-3.*`."""

import re
from collections.abc import Iterator, Sequence
from itertools import product
from math import isfinite, prod

import numpy as np

from railweave.framework.errors import FabricError, did_you_mean
from railweave.framework.model import NodeGroup
from railweave.framework.model.arrays import Bool, Int32, Int64

MOST_NODES = 1 << 20
"""Nodes that the patterns of a file name at most."""
FEW = 2000
"""Names of nodes up to which a message suggests the nearest; of more it shows what names look like."""
_PREFIX = re.compile(r"[A-Za-z]([A-Za-z0-9_-]*[A-Za-z_-])?")
_KIND = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
_RESERVED = ("link", "nic", "ocs")
"""Kinds of objects that faults know on every fabric."""


def places_of(text: str) -> Int32:
    """(n, axes): the coordinates that a text lists, such as `0.0-3 1.0-1`; ranges include their last.

    Raises FabricError for what is none.
    """
    places: list[Int32] = []
    total = 0
    for word in text.split():
        axes = [_range(part) for part in word.split(".")]
        if not all(axes):
            raise FabricError(f"{word!r} is not a place; write 0.1, or 0.0-3 for four of them.")
        total += prod(map(len, axes))
        if total > MOST_NODES:
            raise FabricError(f"more than {MOST_NODES} nodes. Lower the ranges.")
        grid = np.meshgrid(*(np.array(axis, np.int32) for axis in axes), indexing="ij")
        places.append(np.stack(grid, axis=-1).reshape(-1, len(axes)))
    if len({p.shape[1] for p in places}) != 1:
        raise FabricError("its places must all have as many coordinates, and there must be one.")
    return np.concatenate(places)


def is_number(text: str) -> bool:
    """Whether it is a whole number, 0 or more, of at most seven digits."""
    return text.isascii() and text.isdecimal() and len(text) < 8


def is_option(value: object) -> bool:
    """Whether files hold such an option of a topology: text or a finite number."""
    return isinstance(value, str | int) or (isinstance(value, float) and isfinite(value))


def check_kind(kind: str, prefix: str) -> None:
    """Raises FabricError for a kind of nodes or a prefix of names that cannot be."""
    if not _KIND.fullmatch(kind) or kind in _RESERVED:
        raise FabricError(
            f"{kind!r} is no kind of nodes: it takes letters, digits, - and _, and none of "
            f"{', '.join(_RESERVED)}."
        )
    if not _PREFIX.fullmatch(prefix):
        raise FabricError(
            f"{prefix!r} is no prefix of names: it takes letters, digits, - and _, and neither begins nor "
            "ends with a digit."
        )
    if prefix == "h" and kind != "gpu":
        raise FabricError("the prefix h is that of the hosts of GPUs in the lab. Choose another one.")


class Names:
    """The nodes of all groups by name. Raises FabricError for two nodes of one name."""

    def __init__(self, groups: Sequence[NodeGroup]) -> None:
        self._groups = sorted(groups, key=lambda group: -len(group.prefix))
        self.ids: dict[str, int] = {}
        for group in groups:
            self.ids |= zip(_names(group), range(group.first, group.first + group.size), strict=True)
            if len(self.ids) < group.first + group.size:
                raise FabricError(
                    f"nodes of kind {group.kind} have the names of other nodes, such as "
                    f"{group.name(group.first)}. Give each kind a prefix of its own."
                )
        self.switches = len(groups[0].all_coordinates)

    def matching(self, word: str) -> Int64:
        """Ids of the nodes of that name, or of that pattern: in place of a coordinate, `*` is all and `0-3` a
        range. Raises FabricError where there is none."""
        if word in self.ids:
            return np.array([self.ids[word]])
        for group in self._groups:
            chosen = _chosen(word.removeprefix(group.prefix), group.all_coordinates)
            if word.startswith(group.prefix) and chosen.any():
                return np.flatnonzero(chosen) + group.first
        like = did_you_mean(word, self.ids) if len(self.ids) <= FEW else ""
        shown = ", ".join(g.name(g.first) for g in self._groups)
        raise FabricError(f"there is no node {word!r}.{like or f' Names look like {shown}.'}")


def _names(group: NodeGroup) -> Iterator[str]:
    """The names of its nodes in their order."""
    if group.places is None:
        axes = [[str(i) for i in range(length)] for length in group.shape]
        axes[0] = [group.prefix + number for number in axes[0]]
        return map(".".join, product(*axes))
    return (group.prefix + ".".join(map(str, row)) for row in group.places.tolist())


def _chosen(text: str, coordinates: Int32) -> Bool:
    """(n,): which nodes the pattern means."""
    parts = text.split(".")
    chosen = np.full(len(coordinates), len(parts) == coordinates.shape[1])
    for part, column in zip(parts, coordinates.T, strict=False):
        if part != "*":
            numbers = _range(part)
            chosen &= (column >= numbers.start) & (column < numbers.stop)
    return chosen


def _range(text: str) -> range:
    """What a number, or a range with its last such as `0-3`, means; nothing where it is neither."""
    low, dash, high = text.partition("-")
    if not is_number(low) or (dash and not is_number(high)):
        return range(0)
    return range(int(low), int(high or low) + 1)
