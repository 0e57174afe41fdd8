"""Steps, depths and times of all-gathers on an optical ring, by formula.

Sources: Dai et al., "OpTree", arXiv 2211.15119: Lemmas 1 and 2, Theorems 1 to 3, equation 3, Table I; for the
exact number of wavelengths of a ring, Gu and Peng 2001 and Opatrny 2003. N nodes, w wavelengths per direction,
tree arity m, depth k. An item is what one node contributes.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, exp, log, sqrt

from railweave.framework.errors import FabricError

RATE_BPS = 40e9
"""Rate of one wavelength in the source's setup."""
RECONFIGURATION_S = 25e-6
"""What a step costs beyond its data in the source's setup, all but the O/E/O delay of one cycle per flit."""
DIGITS = 9
"""A sum is rounded to so many digits before its ceiling, so that float noise adds no step."""
SMALLEST_TREE = exp(2)
"""Theorem 2 has no real root for fewer nodes: one stage is best there."""


def line_wavelengths(nodes: int) -> int:
    """Wavelengths per direction for everyone to send to everyone on a line, along it: Lemma 1."""
    return nodes * nodes // 4


def ring_wavelengths(nodes: int, *, published: bool = False) -> int:
    """Wavelengths per direction for everyone to send to everyone on a ring.

    `published`: ceil(n^2 / 8), as in Lemma 1; else the exact number ceil(floor(n^2 / 4) / 2), which is lower for
    odd n.
    """
    return -(-nodes * nodes // 8) if published else -(-(nodes * nodes // 4) // 2)


def arity_for(nodes: int, depth: int) -> int:
    """The smallest whole m with m^k >= N: what a tree of that depth needs (Lemma 2)."""
    _check(nodes, depth=depth)
    root: float = nodes ** (1 / depth)
    arity = max(1, round(root))
    while arity**depth < nodes:
        arity += 1
    while arity > 1 and (arity - 1) ** depth >= nodes:
        arity -= 1
    return arity


def deepest(nodes: int) -> int:
    """The depth of the binary tree, beyond which no depth makes a difference."""
    _check(nodes)
    return (nodes - 1).bit_length()


def steps(nodes: int, wavelengths: int, depth: int) -> int:
    """S(k) = ceil((2k - 1) N^(1 + 1/k) / (8 w)): Theorem 1, with one ceiling on the sum."""
    _check(nodes, wavelengths, depth)
    needed: float = (2 * depth - 1) * nodes ** (1 + 1 / depth) / 8
    return ceil(round(needed / wavelengths, DIGITS))


def optimal_depth(nodes: int) -> int:
    """k* = round((ln N + sqrt(ln^2 N - 2 ln N)) / 2), the depth of fewest steps whatever w is: Theorem 2.

    1 below 8 nodes, where the root does not exist. Neighbours of k* may take as few steps.
    """
    _check(nodes)
    if nodes < SMALLEST_TREE:
        return 1
    x = log(nodes)
    return round((x + sqrt(x * x - 2 * x)) / 2)


def stage_wavelengths(nodes: int, arity: int, *, published: bool = True) -> tuple[int, ...]:
    """Wavelengths that each stage of an m-ary tree needs, in whole numbers, groups of ceil(size / m).

    Stage 1: one ring of m per position in a group. Later: one line of m per position in a subgroup, times the
    items that each node holds by then. Source: the proof of Theorem 1. Exact where N is a power of m; real
    uneven groups may need less.
    """
    _check(nodes)
    if arity < 2:
        raise FabricError(f"a tree of arity {arity}: it needs 2 or more.")
    needs: list[int] = []
    size, held = nodes, 1
    while size > 1:
        fan = min(arity, size)
        group = -(-size // fan)
        each = ring_wavelengths(fan, published=published) if not needs else line_wavelengths(fan)
        needs.append(group * each * held)
        size, held = group, held * fan
    return tuple(needs)


def ring_steps(nodes: int) -> int:
    """N - 1. Source: Table I."""
    _check(nodes)
    return nodes - 1


def neighbor_exchange_steps(nodes: int) -> int:
    """N / 2. Source: Table I. Raises FabricError for odd N, which has no pairs of neighbours."""
    _check(nodes)
    if nodes % 2:
        raise FabricError(
            f"neighbor-exchange over {nodes} nodes: nodes pair off with their neighbours, so it needs an even "
            "number. Use `ring-all-gather`, or one node more or less."
        )
    return nodes // 2


def one_stage_steps(nodes: int, wavelengths: int) -> int:
    """ceil(N^2 / (8 w)): Lemma 1 and Theorem 1 with k = 1.

    The table prints N / 8 for N = 1024, w = 64, which contradicts both and the source's own averages.
    """
    return steps(nodes, wavelengths, 1)


def wrht_steps(nodes: int, wavelengths: int) -> int:
    """2 (m^L - 1) / (m - 1) - 1 with m = 2w + 1 and L = ceil(log_m N): Table I.

    It counts the way down like the way up and ignores N within a level: use it as the table's entry only. A
    schedule that completes takes more, because every item has to come down to every node.
    """
    _check(nodes, wavelengths)
    group, levels, reach = 2 * wavelengths + 1, 0, 1
    while reach < nodes:
        levels, reach = levels + 1, reach * group
    return 2 * ((reach - 1) // (group - 1)) - 1


def neighbor_exchange_item_times(nodes: int) -> int:
    """N - 1: one item in the first step, two in each later one."""
    return 2 * neighbor_exchange_steps(nodes) - 1


def time_s(
    item_times: int, n_steps: int, item_bytes: float, rate_bps: float = RATE_BPS, step_s: float = RECONFIGURATION_S
) -> float:  # fmt: skip
    """Seconds: item-times x d/B + steps x a. With one item a step it is T = S (d/B + a), equation 3.

    `item_bytes` d, what a wavelength carries for a node in one item-time; `rate_bps` B of one wavelength;
    `step_s` a, reconfiguration and conversion.
    """
    if not (rate_bps > 0 and item_bytes >= 0 and step_s >= 0):
        raise FabricError(
            f"items of {item_bytes:g} bytes at {rate_bps:g} bit/s with {step_s:g} s a step: the rate must be "
            "positive, the others 0 or more."
        )
    return item_times * item_bytes * 8 / rate_bps + n_steps * step_s


@dataclass(frozen=True, slots=True)
class TableEntry:
    """One row of Table I: `steps` and `item_times` by formula."""

    algorithm: str
    steps: int
    item_times: int


def table_one(nodes: int, wavelengths: int) -> tuple[TableEntry, ...]:
    """Table I for N nodes and w wavelengths; without neighbor-exchange where N is odd."""
    entries = [TableEntry("ring", ring_steps(nodes), ring_steps(nodes))]
    if nodes % 2 == 0:
        pairs = neighbor_exchange_steps(nodes), neighbor_exchange_item_times(nodes)
        entries.append(TableEntry("neighbor-exchange", *pairs))
    for name, count in (
        ("wrht", wrht_steps(nodes, wavelengths)),
        ("one-stage", one_stage_steps(nodes, wavelengths)),
        ("optree", steps(nodes, wavelengths, optimal_depth(nodes))),
    ):
        entries.append(TableEntry(name, count, count))
    return tuple(entries)


def _check(nodes: int, wavelengths: int = 1, depth: int = 1) -> None:
    if nodes < 2:
        raise FabricError(f"an optical ring of {nodes} nodes: it needs 2 or more. Raise `--nodes`.")
    if wavelengths < 1:
        raise FabricError(f"{wavelengths} wavelengths: a ring needs 1 or more. Raise `--wavelengths`.")
    if depth < 1:
        raise FabricError(f"a tree of depth {depth}: it needs 1 or more stages. Raise the depth.")
