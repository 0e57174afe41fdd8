"""Cables collected from a file, and the fabric that they make."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from railweave.framework.errors import FabricError
from railweave.framework.model import CircuitSwitches, Fabric, NodeGroup
from railweave.framework.model.arrays import Int32, Int64

AUTO, NONE, FROM, TO = "auto", "none", "from", "to"
"""Whose health a link counts for; or the name of a switch. `auto`: the switch at its second end, else at its
first."""
T = TypeVar("T")
Pair = tuple[T, T]
"""There and back."""


@dataclass(frozen=True, slots=True)
class CableKind:
    """What cables have in common, for each direction."""

    kind: Pair[str]
    rate_bps: Pair[float]
    latency_s: Pair[float] = (0.0, 0.0)
    element: Pair[str] = (AUTO, AUTO)
    wavelength: Pair[int] = (-1, -1)
    ocs: Pair[str] = ("", "")
    usable: Pair[bool] = (True, True)
    lossless: Pair[bool] | None = None
    """None: as the file says of all."""


@dataclass
class Cables:
    """Ends and variants of cables, in the order of the file."""

    a: list[int] = field(default_factory=list)
    b: list[int] = field(default_factory=list)
    which: list[int] = field(default_factory=list)
    variants: list[CableKind] = field(default_factory=list)

    def variant(self, variant: CableKind) -> int:
        """The number of a variant, to be given with each cable."""
        self.variants.append(variant)
        return len(self.variants) - 1

    def fabric(
        self,
        kind: str,
        groups: Sequence[NodeGroup],
        switches: dict[str, int],
        *,
        ocs_names: Sequence[str] = (),
        params: dict[str, object] | None = None,
        traits: Sequence[str] = (),
        axis_names: Sequence[str] = (),
        circuits: CircuitSwitches | None = None,
    ) -> Fabric:
        """The fabric. `switches`: ids by name; `lossless` in `traits` holds for cables that say nothing else.
        Raises FabricError for one that cannot exist, and for a GPU without a cable."""
        if not self.a:
            raise FabricError("no cable joins anything. List them below `cables: |`, as `g0.0 r0`.")
        ends = np.stack((self.a, self.b), axis=1)
        _check_joined(groups[0], ends)
        kinds, all_ocs = self._kinds(), self._ocs(ocs_names)
        places = {name: i for i, name in enumerate(all_ocs)} | {"": -1}
        variants, column = self.variants, self._column
        return Fabric(
            kind=kind,
            groups=tuple(groups),
            kinds=tuple(kinds),
            link_src=ends.ravel(),
            link_dst=ends[:, ::-1].ravel(),
            link_kind=column([tuple(kinds.get(kind, 0) for kind in v.kind) for v in variants], np.int32),
            capacity_bps=column([v.rate_bps for v in variants], np.float64),
            latency_s=column([v.latency_s for v in variants], np.float64),
            link_element=self._elements(ends, groups[0].size, switches),
            wavelength=column([v.wavelength for v in variants], np.int32),
            ocs=column([(places.get(v.ocs[0], -1), places.get(v.ocs[1], -1)) for v in variants], np.int32),
            ocs_names=tuple(all_ocs),
            params=dict(params or {}),
            usable=column([v.usable for v in variants], np.bool_),
            traits=tuple(sorted({*traits} - {"lossless"})),
            axis_names=tuple(axis_names),
            lossless=column([v.lossless or ("lossless" in traits,) * 2 for v in variants], np.bool_),
            circuits=circuits,
        )

    def _kinds(self) -> dict[str, int]:
        """The number of each kind of link, in the order of the cables."""
        kinds: dict[str, int] = {}
        for number in dict.fromkeys(self.which):
            for name in self.variants[number].kind:
                kinds.setdefault(name, len(kinds))
        return kinds

    def _ocs(self, names: Sequence[str]) -> list[str]:
        """These optical circuit switches, then the others that cables pass."""
        passed = (ocs for number in dict.fromkeys(self.which) for ocs in self.variants[number].ocs if ocs)
        return [*names, *(ocs for ocs in dict.fromkeys(passed) if ocs not in names)]

    def _column(self, values: list[Any], kind: type[Any]) -> NDArray[Any]:
        """(n_links,): the value of every link, there and back in turn, from that of every variant."""
        by_link: NDArray[Any] = np.array(values, kind)[np.asarray(self.which)].ravel()
        return by_link

    def _elements(self, ends: Int64, n_gpus: int, switches: dict[str, int]) -> Int32:
        """(n_links,): the switch whose health each link counts for, -1 for none."""
        # TO names the second end of the cable for both of its directions.
        first, second = np.repeat(ends[:, 0], 2), np.repeat(ends[:, 1], 2)
        auto = np.where(second >= n_gpus, second, np.where(first >= n_gpus, first, -1))
        codes = {AUTO: -5, NONE: -1, FROM: -3, TO: -4} | switches
        element = self._column([(codes[v.element[0]], codes[v.element[1]]) for v in self.variants], np.int64)
        for code, chosen in ((codes[AUTO], auto), (codes[FROM], first), (codes[TO], second)):
            element = np.where(element == code, chosen, element)
        return element.astype(np.int32)


def _check_joined(gpus: NodeGroup, ends: Int64) -> None:
    """Raises FabricError for a GPU without a cable."""
    joined = np.zeros(gpus.size, bool)
    joined[ends[ends < gpus.size]] = True
    if not joined.all():
        lonely = gpus.name(int(np.argmin(joined)))
        raise FabricError(f"{lonely} has no cable. Join it with a switch or another GPU, or leave it out.")
