"""Steps, depths and times of all-gathers on an optical ring, by formula.

Sources: Dai et al., "OpTree", arXiv 2211.15119: Lemmas 1 and 2, Theorems 1 to 3, equation 3, Table I; for the
exact number of wavelengths of a ring, Gu and Peng 2001 and Opatrny 2003. N nodes, w wavelengths per
direction, tree arity m, depth k. An item is what one node contributes.
"""

from dataclasses import dataclass
from itertools import count
from math import ceil, exp, log, sqrt

from railweave.framework.errors import FabricError

RATE_BPS = 40e9
"""Rate of one wavelength in the source's setup."""
RECONFIGURATION_S = 25e-6
"""What a step costs beyond its data in the source's setup, without conversion (StepSetup)."""
DIGITS = 9
"""Decimals that a sum is rounded to before its ceiling is taken, so that rounding errors add no step."""
SMALLEST_TREE = exp(2)
"""Nodes from which theorem 2 has a real root; below, one stage is best."""


@dataclass(frozen=True, slots=True)
class StepSetup:
    """What a step costs beyond the data of its item. An item travels in whole packets of `packet_bytes`, and
    conversion between light and electrons (O/E/O) takes a cycle of `cycle_s` for each flit of `flit_bytes`;
    the source names no clock, so 0, without conversion, is the default. `reconfiguration_s`: to set the
    lightpaths anew. Source: arXiv 2211.15119, IV-A.

    >>> StepSetup(cycle_s=1e-9).flits(100)
    4
    """

    packet_bytes: int = 128
    flit_bytes: int = 32
    cycle_s: float = 0.0
    reconfiguration_s: float = RECONFIGURATION_S

    def __post_init__(self) -> None:
        if self.flit_bytes < 1 or self.packet_bytes < 1 or self.packet_bytes % self.flit_bytes:
            raise FabricError(
                f"packets of {self.packet_bytes} bytes with flits of {self.flit_bytes}: a packet is one or "
                "more whole flits. Give a packet that is a multiple of the flit, such as 128 and 32."
            )

    def wire_bytes(self, item_bytes: float) -> float:
        """Of the packets of an item."""
        return ceil(item_bytes / self.packet_bytes) * float(self.packet_bytes)

    def flits(self, item_bytes: float) -> int:
        """Of the packets of an item."""
        return round(self.wire_bytes(item_bytes)) // self.flit_bytes

    def step_s(self, item_bytes: float) -> float:
        """a of equation 3: reconfiguration, and a cycle for every flit."""
        return self.reconfiguration_s + self.flits(item_bytes) * self.cycle_s


def ring_wavelengths(nodes: int, *, published: bool = False) -> int:
    """Wavelengths per direction for an all-to-all in one step on a ring: Lemma 1.

    `published`: ceil(n^2 / 8), as in Lemma 1; else the exact number ceil(floor(n^2 / 4) / 2), which is lower
    for odd n.
    """
    return -(-nodes * nodes // 8) if published else -(-(nodes * nodes // 4) // 2)


def arity_for(nodes: int, depth: int) -> int:
    """The smallest integer m with m^k >= N: the arity that a tree of that depth needs (Lemma 2)."""
    check_ring(nodes, depth=depth)
    root: float = nodes ** (1 / depth)
    return next(m for m in count(max(1, round(root) - 1)) if m**depth >= nodes)


def deepest(nodes: int) -> int:
    """The depth of the binary tree; deeper trees are the same."""
    check_ring(nodes)
    return (nodes - 1).bit_length()


def steps(nodes: int, wavelengths: int, depth: int) -> int:
    """S(k) = ceil((2k - 1) N^(1 + 1/k) / (8 w)): Theorem 1, with one ceiling on the sum.

    S(1) = ceil(N^2 / (8 w)) is the one-stage all-gather. Table I prints N / 8 for it (N = 1024, w = 64),
    which contradicts Lemma 1, Theorem 1 and the source's own averages.
    """
    check_ring(nodes, wavelengths, depth)
    needed: float = (2 * depth - 1) * nodes ** (1 + 1 / depth) / 8
    return ceil(round(needed / wavelengths, DIGITS))


def optimal_depth(nodes: int) -> int:
    """k* = round((ln N + sqrt(ln^2 N - 2 ln N)) / 2), the depth of fewest steps for any w: Theorem 2.

    1 below 8 nodes, where the root does not exist. Neighbours of k* may take as few steps.
    """
    check_ring(nodes)
    if nodes < SMALLEST_TREE:
        return 1
    x = log(nodes)
    return round((x + sqrt(x * x - 2 * x)) / 2)


def ring_steps(nodes: int) -> int:
    """N - 1. Source: Table I."""
    check_ring(nodes)
    return nodes - 1


def neighbor_exchange_steps(nodes: int) -> int:
    """N / 2. Source: Table I. Raises FabricError for odd N, which has no pairs of neighbours."""
    check_ring(nodes)
    if nodes % 2:
        raise FabricError(
            f"neighbor-exchange over {nodes} nodes: neighbours pair off, so it needs an even number. "
            "Use `ring-all-gather`, or one node more or less."
        )
    return nodes // 2


def wrht_steps(nodes: int, wavelengths: int) -> int:
    """2 (m^L - 1) / (m - 1) - 1 with m = 2w + 1 and L = ceil(log_m N): Table I.

    It counts the levels down like those up and ignores N within a level, so it serves as the table's entry
    only. A complete schedule takes more steps, because every item has to come down to every node.
    """
    check_ring(nodes, wavelengths)
    group, levels, reach = 2 * wavelengths + 1, 0, 1
    while reach < nodes:
        levels, reach = levels + 1, reach * group
    return 2 * ((reach - 1) // (group - 1)) - 1


def neighbor_exchange_item_times(nodes: int) -> int:
    """N - 1: one item in the first step, two in each later one."""
    return 2 * neighbor_exchange_steps(nodes) - 1


def time_s(
    item_times: int,
    n_steps: int,
    item_bytes: float,
    rate_bps: float = RATE_BPS,
    step_s: float = RECONFIGURATION_S,
) -> float:
    """Seconds: item-times x d/B + steps x a. With one item a step it is T = S (d/B + a), equation 3.

    `item_bytes`: d, what a wavelength carries for a node in one item-time. `rate_bps`: B of one wavelength.
    `step_s`: a, reconfiguration and conversion.
    """
    return item_times * item_bytes * 8 / rate_bps + n_steps * step_s


def check_ring(nodes: int, wavelengths: int = 1, depth: int = 1) -> None:
    """FabricError for fewer than 2 nodes, or less than 1 wavelength or stage."""
    if nodes < 2 or wavelengths < 1:
        raise FabricError(
            f"a ring of {nodes} nodes and {wavelengths} wavelengths: it needs 2 nodes and 1 wavelength or "
            "more. Raise `--nodes` or `--wavelengths`."
        )
    if depth < 1:
        raise FabricError(f"a tree of depth {depth}: it needs 1 or more stages. Raise the depth.")
