"""Paths and the table that answers for arrays of pairs."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from math import inf
from numbers import Real
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from railweave.framework.errors import RouteError
from railweave.framework.model.arrays import ArrayNoun, Bool, Float, Int32, Int64, spread

if TYPE_CHECKING:
    from railweave.framework.model.fabric import Fabric


LAYOUT = ("pair_start", "hop_start", "links")
"""What makes the paths of a batch."""
MOST_PATHS = 1 << 14
"""Of a pair: the UDP source ports that tell them apart (RFC 6335: ports from 49152 on are not assigned)."""


def starts(count: NDArray[Any]) -> Int64:
    """(N+1,): where each of N ranges of these lengths begins, and the end.

    >>> starts(np.array([2, 0, 3]))
    array([0, 2, 2, 5])
    """
    start = np.zeros(len(count) + 1, np.int64)
    np.cumsum(count, out=start[1:])
    return start


@dataclass(frozen=True, slots=True)
class Path:
    """Link ids in order, from the source GPU to the destination GPU; `vc` per hop where it matters."""

    links: tuple[int, ...]
    weight: float = 1.0
    vc: tuple[int, ...] | None = None


@dataclass(frozen=True, eq=False, slots=True)
class PathBatch(ArrayNoun):
    """The paths of many pairs, as nested ranges.

    Pair i owns paths `pair_start[i]:pair_start[i+1]`; path p owns hops `hop_start[p]:hop_start[p+1]` of
    `links` (and `vc`). Weights of one pair sum to 1. A pair with no path is unreachable.
    Shapes: src, dst (P,); pair_start (P+1,); weight (Q,); hop_start (Q+1,); links, vc (H,).
    """

    src: Int64
    dst: Int64
    pair_start: Int64
    weight: Float
    hop_start: Int64
    links: Int32
    vc: Int32 | None = None

    def __post_init__(self) -> None:
        for name in ("src", "dst", "pair_start", "hop_start", "links", "vc"):
            numbers = np.asarray(getattr(self, name) if getattr(self, name) is not None else ())
            if numbers.size and numbers.dtype.kind not in "iu":
                raise RouteError(
                    f"path batch: its {name} are {numbers.dtype}, such as {numbers.flat[0]}, and ids are "
                    "whole numbers. Give integers (np.int64)."
                )
        ArrayNoun.__post_init__(self)
        if (
            len(self.src) != len(self.dst)
            or len(self.pair_start) != len(self.src) + 1
            or len(self.hop_start) != len(self.weight) + 1
            or self.pair_start[-1] != len(self.weight)
            or self.hop_start[-1] != len(self.links)
        ):
            raise RouteError(
                f"path batch of {len(self.src)} pairs: its ranges do not fit together "
                f"({len(self.pair_start)} pair starts, {len(self.hop_start)} hop starts, {len(self.links)} "
                f"hops)."
            )

    def is_of(self, src: Int64, dst: Int64) -> bool:
        """Whether it holds these pairs in their order."""
        return all(
            ours is theirs or np.array_equal(ours, theirs)
            for ours, theirs in ((self.src, src), (self.dst, dst))
        )

    def paths(self, pair: int) -> tuple[Path, ...]:
        """The paths of the pair at position `pair` of this batch."""
        return tuple(
            Path(
                tuple(int(x) for x in self.links[self.hop_start[p] : self.hop_start[p + 1]]),
                float(self.weight[p]),
                None
                if self.vc is None
                else tuple(int(x) for x in self.vc[self.hop_start[p] : self.hop_start[p + 1]]),
            )
            for p in range(self.pair_start[pair], self.pair_start[pair + 1])
        )

    @property
    def path_pair(self) -> Int64:
        """(Q,): which pair (position) each path belongs to."""
        return np.repeat(np.arange(len(self.src)), np.diff(self.pair_start))

    @property
    def hop_path(self) -> Int64:
        """(H,): which path each hop belongs to."""
        return np.repeat(np.arange(len(self.weight)), np.diff(self.hop_start))

    @classmethod
    def single(
        cls,
        src: NDArray[Any],
        dst: NDArray[Any],
        hops: NDArray[Any],
        vc: NDArray[Any] | None = None,
        *,
        reachable: NDArray[np.bool_] | None = None,
    ) -> Self:
        """One path per pair from a padded matrix. hops: (P, longest), link ids, -1 where the path has
        ended."""
        used = hops >= 0
        if reachable is not None:
            used &= reachable[:, None]
        return cls.in_row(
            src,
            dst,
            starts(used.sum(axis=1)),
            hops[used],
            None if vc is None else vc[used],
            reachable=reachable,
        )

    @classmethod
    def in_row(
        cls,
        src: NDArray[Any],
        dst: NDArray[Any],
        hop_start: NDArray[Any],
        links: NDArray[Any],
        vc: NDArray[Any] | None = None,
        *,
        reachable: NDArray[np.bool_] | None = None,
    ) -> Self:
        """One path per pair, their hops laid one pair behind the other: `hop_start` (P+1,), links and vc
        (H,).

        A pair that is not reachable has no hops. Keeps the arrays themselves and makes them read-only.
        """
        if reachable is None:
            pair_start = np.arange(len(src) + 1)
        else:
            pair_start, hop_start = starts(reachable), hop_start[np.concatenate(([True], reachable))]
        weight = np.ones(len(hop_start) - 1)
        for array in (pair_start, weight, hop_start, links, vc):
            if array is not None:
                array.flags.writeable = False  # spares the batch its own copy
        return cls(src, dst, pair_start, weight, hop_start, links, vc)

    @classmethod
    def evenly(cls, src: NDArray[Any], dst: NDArray[Any], paths: Sequence[Sequence[Sequence[int]]]) -> Self:
        """Pairs that share their packets out evenly. `paths`: for each pair a list of paths, each a list of
        link ids; empty for one that is unreachable."""
        return cls.weighted(src, dst, [[Path(tuple(path)) for path in several] for several in paths])

    @classmethod
    def weighted(cls, src: NDArray[Any], dst: NDArray[Any], paths: Sequence[Sequence[Path]]) -> Self:
        """Pairs that share their packets out by the weights of their paths, of any scale. `paths`: for each
        pair its paths; none for one that is unreachable."""
        every = [path for several in paths for path in several]
        totals = [sum(path.weight for path in several) for several in paths]
        hops = any(path.vc is not None for path in every)
        return cls(
            np.asarray(src, np.int64),
            np.asarray(dst, np.int64),
            starts(np.array([len(several) for several in paths], np.int64)),
            np.array([path.weight / total for total, several in zip(totals, paths, strict=True)
                      for path in several], np.float64),
            starts(np.array([len(path.links) for path in every], np.int64)),
            np.array([link for path in every for link in path.links], np.int32),
            np.array([vc for path in every for vc in path.vc or [0] * len(path.links)], np.int32)
            if hops else None,
        )  # fmt: skip


def same_paths(a: PathBatch, b: PathBatch) -> Bool:
    """(P,): whether the i-th pair of both batches has the same paths in the same order, link by link.

    Weights and virtual channels are ignored: packets cross the same ports whatever they are. Raises
    RouteError for batches of different pairs.

    >>> src, dst = np.array([0, 0]), np.array([1, 2])
    >>> one, other = (PathBatch.evenly(src, dst, [[[0]], paths]) for paths in ([[2], [4]], [[2]]))
    >>> same_paths(one, other)
    array([ True, False])
    """
    if not a.is_of(b.src, b.dst):
        raise RouteError(
            "two path batches of different pairs cannot be compared. Request the same pairs of both tables."
        )
    if a is b or all(np.array_equal(getattr(a, name), getattr(b, name)) for name in LAYOUT):
        return np.ones(len(a.src), bool)
    hops, hops_b = (x.hop_start[x.pair_start[1:]] - x.hop_start[x.pair_start[:-1]] for x in (a, b))
    same: Bool = (np.diff(a.pair_start) == np.diff(b.pair_start)) & (hops == hops_b)
    alike = np.flatnonzero(same)

    def marks(x: PathBatch) -> Int64:
        """The hops of the pairs that have equally many, and where a path begins."""
        mark = x.links.astype(np.int64) * 2
        mark[x.hop_start[:-1]] += 1
        return mark[spread(x.hop_start[x.pair_start[alike]], hops[alike])]

    same[np.repeat(alike, hops[alike])[marks(a) != marks(b)]] = False
    return same


Resolve = Callable[[Int64, Int64], PathBatch]
Way = Path | Sequence[int]
"""A path: its link ids in order; as a `Path` also its weight."""
UNSTAMPED = -(1 << 62)
"""Version of a table whose router leaves it to the caller: that of the health it was asked with."""


@dataclass(frozen=True, eq=False)
class RouteTable:
    """What a router decided: `resolve` computes or looks up the paths of any pairs, when they are needed.

    `resolve(src, dst)` takes equal-length arrays of GPU ids with src != dst and must be pure. It is
    called for the pairs in use, in blocks; nothing here holds an object per pair, nor should a router.
    """

    router: str
    version: int
    n_gpus: int
    resolve: Resolve

    @classmethod
    def of(cls, fabric: "Fabric", paths_of: Callable[[int, int], Iterable[Way]]) -> Self:
        """The table of a router that thinks pair by pair: `paths_of(src, dst)` gives the paths between two
        GPUs, as lists of link ids or as `Path`s with weights of any scale (a path given twice counts twice);
        none for a pair that cannot be reached. It must be pure; it is asked once for a pair. One that has a
        method `batch(src, dst)`, which answers whole arrays with a PathBatch, is asked by that.

        Raises RouteError, naming the pair, for what is no path, weights that are not positive numbers, and
        more than `MOST_PATHS`.

        >>> fabric = rw.topology("ring", nodes=4)
        >>> round_it = {(int(a), int(b)): i for i, (a, b) in enumerate(zip(fabric.link_src, fabric.link_dst))}
        >>> def clockwise(src, dst):
        ...     nodes = [n % 4 for n in range(src, dst + 1 if dst > src else dst + 5)]
        ...     return [[round_it[step] for step in zip(nodes, nodes[1:])]]
        >>> [fabric.link_name(link) for link in RouteTable.of(fabric, clockwise).path(3, 1)[0].links]
        ['g3->g0', 'g0->g1']
        """
        if (batch := getattr(paths_of, "batch", None)) is not None:
            return cls("", UNSTAMPED, fabric.n_gpus, batch)
        by_pair: dict[tuple[int, int], list[Path]] = {}

        def ways(src: int, dst: int) -> list[Path]:
            if (src, dst) not in by_pair:
                paths = [
                    way if isinstance(way, Path) else Path(tuple(way))
                    for way in islice(paths_of(src, dst), MOST_PATHS + 1)
                ]
                if why := _wrong(paths):
                    pair = f"{fabric.node_name(src)} -> {fabric.node_name(dst)}"
                    raise RouteError(f"{pair}: {why}")
                by_pair[src, dst] = paths
            return by_pair[src, dst]

        def resolve(src: Int64, dst: Int64) -> PathBatch:
            pairs = zip(src.tolist(), dst.tolist(), strict=True)
            return PathBatch.weighted(src, dst, [ways(a, b) for a, b in pairs])

        return cls("", UNSTAMPED, fabric.n_gpus, resolve)

    def paths(self, src: NDArray[Any], dst: NDArray[Any]) -> PathBatch:
        src, dst = np.asarray(src, np.int64), np.asarray(dst, np.int64)
        batch = self.resolve(src, dst)
        if len(batch.src) != len(src):
            raise RouteError(f"router {self.router} answered {len(batch.src)} of {len(src)} pairs.")
        return batch

    def path(self, src: int, dst: int) -> tuple[Path, ...]:
        """The weighted paths of one pair; empty when it is unreachable."""
        return self.paths(np.array([src]), np.array([dst])).paths(0)


def _wrong(paths: Sequence[Path]) -> str:
    """Why these cannot be the paths of a pair; empty where they can."""
    if len(paths) > MOST_PATHS:
        return f"it has more than {MOST_PATHS} paths, which packets tell apart at most. Give fewer."
    for path in paths:
        if not all(isinstance(link, int | np.integer) for link in path.links):
            return f"{path.links!r} is no path. Give a list of link ids, or a Path with a weight."
        if not (isinstance(path.weight, Real) and 0 < path.weight < inf):
            return f"a path has the weight {path.weight!r}. Give a positive number."
    return ""


def all_pairs(n: int) -> tuple[Int64, Int64]:
    """Every ordered pair (src, dst), src != dst, in lexicographic order: two arrays of n(n-1).

    >>> all_pairs(2)
    (array([0, 1]), array([1, 0]))
    """
    src, dst = np.divmod(np.arange(n * n), n)
    keep = src != dst
    return src[keep], dst[keep]
