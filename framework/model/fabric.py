"""The network under study: nodes and directed links as arrays, names made on demand."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from html import escape
from itertools import pairwise
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from railweave.framework.errors import FabricError, RouteError
from railweave.framework.model.arrays import ArrayNoun, Bool, Float, Int32, Int64, readonly
from railweave.framework.model.capabilities import capabilities
from railweave.framework.model.circuits import CircuitSwitches
from railweave.framework.model.node_group import NodeGroup


@dataclass(frozen=True, slots=True)
class Link:
    """One direction of a cable, as a plain value; the fabric itself keeps arrays."""

    id: int
    a: int
    b: int
    kind: str
    capacity_bps: float
    latency_s: float
    name: str


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a rank sends from. `namespace` is a path that setns(2) takes, `interface` lives in it."""

    gpu: int
    name: str
    namespace: str
    interface: str
    mac: str
    ip: str
    path_mtu: int


@dataclass(frozen=True, eq=False)
class Fabric(ArrayNoun):
    """Nodes 0..n-1 (GPUs first) and directed links; knows nothing of how it is emulated.

    Links come as cables: 2c and 2c+1 are the two directions of cable c, so `link ^ 1` is the reverse
    direction. Parallel cables are allowed. Rates are those of the real machines unless `scaled` was applied.

    Arrays (one entry per link): `link_src`, `link_dst` node ids; `link_kind` index into `kinds`;
    `capacity_bps` bit/s; `latency_s` s; `link_element` the switch whose health the link is part of, or -1;
    `wavelength` or -1; `ocs` index into `ocs_names` or -1; `usable` False for the direction of a one-way
    cable that carries nothing (all usable where left empty); `lossless` whether the link waits instead of
    dropping. `traits`: capabilities that the topology declares; `lossless` is there where all links are so.
    `axis_names`: what the coordinates of a GPU are called, where the topology says. `circuits`: what its
    optical circuit switches can do, None where circuits stay as they are.
    """

    kind: str
    groups: tuple[NodeGroup, ...]
    kinds: tuple[str, ...]
    link_src: Int32
    link_dst: Int32
    link_kind: Int32
    capacity_bps: Float
    latency_s: Float
    link_element: Int32
    wavelength: Int32
    ocs: Int32
    ocs_names: tuple[str, ...] = ()
    params: dict[str, object] = field(default_factory=dict)
    usable: Bool = field(default_factory=lambda: np.empty(0, bool))
    traits: tuple[str, ...] = ()
    axis_names: tuple[str, ...] = ()
    lossless: Bool = field(default_factory=lambda: np.empty(0, bool))
    circuits: CircuitSwitches | None = None

    def __post_init__(self) -> None:
        n = len(self.link_src)
        if len(self.usable) == 0:
            object.__setattr__(self, "usable", np.ones(n, bool))
        if "lossless" in self.traits or len(self.lossless) == 0:
            object.__setattr__(self, "lossless", np.full(n, "lossless" in self.traits))
        elif np.all(self.lossless):
            object.__setattr__(self, "traits", tuple(sorted((*self.traits, "lossless"))))
        ArrayNoun.__post_init__(self)
        for name, values in vars(self).items():
            if isinstance(values, np.ndarray) and len(values) != n:
                raise FabricError(f"{self.kind}: {name} has {len(values)} entries for {n} links.")
        if not self.groups or self.groups[0].kind != "gpu" or self.groups[0].first != 0:
            raise FabricError(f"{self.kind}: the first node group must be the GPUs, from id 0.")
        if self.groups[0].size < 2:
            raise FabricError(
                f"{self.kind} of {self.groups[0].size} GPU: a fabric needs 2 or more. Raise its dimensions."
            )
        for before, after in pairwise(self.groups):
            if after.first != before.first + before.size:
                raise FabricError(
                    f"{self.kind}: node group {after.kind} must start at {before.first + before.size}."
                )
        if n % 2 or not (
            np.array_equal(self.link_src[0::2], self.link_dst[1::2])
            and np.array_equal(self.link_dst[0::2], self.link_src[1::2])
        ):
            raise FabricError(f"{self.kind}: links 2c and 2c+1 must be the two directions of cable c.")
        if n and (int(self.link_src.min()) < 0 or int(self.link_src.max()) >= self.n_nodes):
            raise FabricError(f"{self.kind}: a link ends at a node that is not there.")
        if np.any(self.link_src == self.link_dst):
            raise FabricError(f"{self.kind}: a link joins a node with itself.")
        bad = np.flatnonzero(~(self.capacity_bps > 0))
        if bad.size:
            raise FabricError(
                f"link {self.link_name(int(bad[0]))}: capacity {self.capacity_bps[bad[0]]:g} bit/s is not "
                "positive. Report a dead cable in HealthSnapshot.down instead."
            )
        if np.any(~(self.latency_s >= 0)):
            raise FabricError(f"{self.kind}: a link latency is negative or not a number.")
        if self.circuits is not None:
            self._check_circuits(self.circuits)

    def _check_circuits(self, circuits: CircuitSwitches) -> None:
        if not np.array_equal(self.ocs[0::2], self.ocs[1::2]) or not np.any(self.ocs >= 0):
            raise FabricError(
                f"{self.kind}: circuits need cables that pass an `ocs`, the same one in both directions."
            )
        for unit in circuits.units:
            unit.places(self.gpu_coordinates)

    @cached_property
    def capabilities(self) -> frozenset[str]:
        """What the fabric offers to routers, such as "rails" or "wrap"; see `capabilities.MEANINGS`."""
        return capabilities(self)

    # -- sizes ---------------------------------------------------------------------------------------
    @property
    def n_gpus(self) -> int:
        return self.groups[0].size

    @property
    def n_nodes(self) -> int:
        return self.groups[-1].first + self.groups[-1].size

    @property
    def n_links(self) -> int:
        return len(self.link_src)

    # -- nodes ---------------------------------------------------------------------------------------
    def group_of(self, node: int) -> NodeGroup:
        for group in self.groups:
            if group.first <= node < group.first + group.size:
                return group
        raise FabricError(f"{self.kind}: there is no node {node}; ids go to {self.n_nodes - 1}.")

    def group(self, kind: str) -> NodeGroup | None:
        """The nodes of one kind (gpu, domain, rail, spine), or None."""
        return next((g for g in self.groups if g.kind == kind), None)

    def node_name(self, node: int) -> str:
        if (name := self._names.get(node)) is None:
            name = self._names[node] = self.group_of(node).name(node)
        return name

    @cached_property
    def _names(self) -> dict[int, str]:
        """Of the nodes that were asked for: figures name every link, which is both ends of it."""
        return {}

    def node_kind(self, node: int) -> str:
        return self.group_of(node).kind

    def coordinates(self, node: int) -> tuple[int, ...]:
        return self.group_of(node).coordinates(node)

    def check_gpus(self, *gpus: int) -> None:
        """Raises RouteError for a GPU that is not there."""
        if bad := [gpu for gpu in gpus if not 0 <= gpu < self.n_gpus]:
            raise RouteError(f"there is no GPU {bad[0]}; this {self.kind} has 0..{self.n_gpus - 1}.")

    @cached_property
    def gpu_coordinates(self) -> Int32:
        """(n_gpus, axes): the coordinates of every GPU; (domain, rail) on rail fabrics."""
        return readonly(self.groups[0].all_coordinates, np.int32)

    @cached_property
    def node_ids(self) -> dict[str, int]:
        """Node ids by name; made on demand."""
        return {self.node_name(i): i for i in range(self.n_nodes)}

    # -- links ---------------------------------------------------------------------------------------
    def link(self, link: int) -> Link:
        return Link(
            link,
            int(self.link_src[link]),
            int(self.link_dst[link]),
            self.kinds[self.link_kind[link]],
            float(self.capacity_bps[link]),
            float(self.latency_s[link]),
            self.link_name(link),
        )

    def links(self) -> Iterator[Link]:
        return (self.link(i) for i in range(self.n_links))

    def link_name(self, link: int) -> str:
        """`g0.0->rail0`; parallel links carry `#wavelength` or `#n` behind."""
        name = f"{self.node_name(int(self.link_src[link]))}->{self.node_name(int(self.link_dst[link]))}"
        twin = int(self._twin[link])
        return name if twin < 0 else f"{name}#{twin}"

    @cached_property
    def _twin(self) -> Int32:
        """(n_links,): the place of each link among those that join the same nodes, -1 where it is alone."""
        ends = self.link_src.astype(np.int64) * self.n_nodes + self.link_dst
        order = np.argsort(ends, kind="stable")
        first = np.append(True, np.diff(ends[order]) != 0)
        start = np.flatnonzero(first)
        count = np.diff(np.append(start, len(ends)))
        place = np.arange(len(ends)) - np.repeat(start, count)
        twin = np.empty(len(ends), np.int32)
        twin[order] = np.where(np.repeat(count, count) > 1, place, -1)
        return readonly(twin, np.int32)

    @cached_property
    def _out(self) -> tuple[Int64, Int64]:
        order = np.lexsort((np.arange(self.n_links), self.link_src))
        start = np.searchsorted(self.link_src[order], np.arange(self.n_nodes + 1))
        return readonly(start, np.int64), readonly(order, np.int64)

    def out_links(self, node: int) -> Int64:
        """Ids of the links that leave `node`, ascending."""
        start, order = self._out
        return order[start[node] : start[node + 1]]

    @cached_property
    def link_port(self) -> Int32:
        """(n_links,): the switch port by which each link leaves its node; `link_port[l ^ 1]` is where l
        arrives.

        Port 1 of a GPU's NIC switch is its host; other ports count on from there in link order.
        """
        start, order = self._out
        port = np.empty(self.n_links, np.int32)
        port[order] = np.arange(self.n_links) - start[self.link_src[order]] + 1
        return readonly(port + (self.link_src < self.n_gpus), np.int32)

    def element_links(self, node: int) -> Int64:
        """Links whose health counts for the element (domain, rail or spine switch) `node`."""
        return np.flatnonzero(self.link_element == node)

    def scaled(self, rate_scale: float) -> Self:
        """The fabric slowed down as a whole: capacities x s, latencies / s."""
        if not rate_scale > 0:
            raise FabricError(f"rate scale {rate_scale!r} is not positive.")
        return replace(
            self, capacity_bps=self.capacity_bps * rate_scale, latency_s=self.latency_s / rate_scale
        )

    def __repr__(self) -> str:
        sizes = f"{self.n_gpus} GPUs, {self.n_nodes - self.n_gpus} switches, {self.n_links} links"
        return f"<Fabric {self.kind}: {sizes}>"

    def _repr_html_(self) -> str:
        """The fabric's picture, for notebooks; for fabrics too large to draw, their size in words."""
        from railweave.framework.drawing import svg  # drawing is built on this module

        try:
            return svg(self)
        except FabricError as error:
            return (
                f"<p>{escape(self.kind)}: {self.n_gpus} GPUs, {self.n_links} links ({escape(str(error))})</p>"
            )


class FabricBuilder:
    """Collects cables one by one or by arrays and makes the Fabric; for topology plugins."""

    def __init__(
        self,
        kind: str,
        groups: Sequence[NodeGroup],
        params: dict[str, object],
        *,
        traits: Sequence[str] = (),
        circuits: CircuitSwitches | None = None,
    ) -> None:
        self._circuits = circuits
        self._kind, self._groups = kind, tuple(groups)
        self._params, self._traits = dict(params), tuple(traits)
        self._kinds: dict[str, int] = {}
        self._ocs_names: dict[str, int] = {}
        self._columns: list[tuple[NDArray[Any], ...]] = []

    def cables(
        self,
        a: Int64 | Sequence[int],
        b: Int64 | Sequence[int],
        kind: str | tuple[str, str],
        capacity_bps: float,
        latency_s: float = 0.0,
        *,
        element: Int64 | Sequence[int] | None = None,
        wavelength: int = -1,
        ocs: str | Sequence[str] | None = None,
        one_way: bool = False,
        lossless: bool = False,
    ) -> None:
        """Join a[i] with b[i] by a cable; `kind` may differ per direction (there, back).

        `ocs`: the optical circuit switch that they pass, of all or of each. `one_way`: only a[i] -> b[i]
        carries traffic. `lossless`: they wait instead of dropping.
        """
        ends = np.stack(np.broadcast_arrays(np.atleast_1d(a), b), axis=1)
        n = 2 * len(ends)
        forward, back = (kind, kind) if isinstance(kind, str) else kind
        kinds = [self._kinds.setdefault(name, len(self._kinds)) for name in (forward, back)]
        passed = [] if ocs is None else [ocs] * len(ends) if isinstance(ocs, str) else ocs
        planes = [self._ocs_names.setdefault(name, len(self._ocs_names)) for name in passed]
        plane = np.repeat(planes, 2) if planes else np.full(n, -1)
        switch = np.full(n, -1) if element is None else np.repeat(element, 2)
        self._columns.append(
            (ends.ravel(), ends[:, ::-1].ravel(), np.tile(kinds, n // 2), np.full(n, capacity_bps),
             np.full(n, latency_s), switch, np.full(n, wavelength), plane,
             np.tile([True, not one_way], n // 2), np.full(n, lossless))
        )  # fmt: skip

    def build(self) -> Fabric:
        if not self._columns:
            raise FabricError(f"{self._kind}: no cable joins anything.")
        src, dst, kinds, capacity, latency, element, wavelength, ocs, usable, lossless = (
            np.concatenate(column) for column in zip(*self._columns, strict=True)
        )
        return Fabric(
            self._kind, self._groups, tuple(self._kinds), src, dst, kinds, capacity, latency, element,
            wavelength, ocs, tuple(self._ocs_names), self._params, usable, self._traits, lossless=lossless,
            circuits=self._circuits,
        )  # fmt: skip
