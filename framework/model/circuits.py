"""Optical circuit switches as part of a fabric: what they need to connect anew, and what can be replaced."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any, Self

from railweave.framework.errors import FabricError
from railweave.framework.model.arrays import Int32


@dataclass(frozen=True, slots=True)
class UnitKind:
    """GPUs that are replaced together, with all their links: the cubes of a pod, single GPUs, HB domains.

    `block`: lengths of a unit along the first axes of GPUs; (4, 4, 4) for cubes, (1, 1) for single GPUs, (1,)
    for domains. `spares`: units that stand ready, dark until they replace another; each serves the units that
    share its first `shared_axes` coordinates (1 for the spare GPUs of a domain: as many in each).
    `own_switches`: the fibres of a spare end at switches of its own, not at those of the unit it replaces.
    """

    kind: str
    block: tuple[int, ...]
    spares: int = 0
    shared_axes: int = 0
    own_switches: bool = False

    def __post_init__(self) -> None:
        if not self.block or min(self.block) < 1 or not 0 <= self.shared_axes <= len(self.block):
            raise FabricError(f"units {self.kind}: a block of {self.block} is none of 1 or more GPUs.")
        if self.spares < 0:
            raise FabricError(f"units {self.kind}: {self.spares} spares; there are 0 or more.")

    def places(self, coordinates: Int32) -> Int32:
        """(n, len(block)): the unit of GPUs at these coordinates (n, axes)."""
        width = len(self.block)
        if coordinates.shape[1] < width:
            raise FabricError(
                f"units {self.kind}: GPUs have {coordinates.shape[1]} coordinates, not {width}."
            )
        places: Int32 = coordinates[:, :width] // self.block
        return places


@dataclass(frozen=True, slots=True)
class CircuitSwitches:
    """The optical circuit switches (OCS) of a fabric; links with an `ocs` are the circuits that are set.

    `connect_s`: declared seconds from the command to connect ports until light passes. `spare_ports`: ports
    of each switch that nothing is plugged into, to which circuits can move. Port numbers of a switch begin
    with those of its circuits, in the order of cables: 2i where the first end of circuit i is plugged in,
    2i + 1 the other one; those of spare units come next, then the spare ports.
    """

    connect_s: float
    spare_ports: int = 0
    units: tuple[UnitKind, ...] = ()

    def __post_init__(self) -> None:
        if not (isfinite(self.connect_s) and self.connect_s >= 0):
            raise FabricError(f"optical circuit switches connect in {self.connect_s!r} s: it is 0 or more.")
        if self.spare_ports < 0:
            raise FabricError(f"optical circuit switches with {self.spare_ports} spare ports: 0 or more.")
        if len({unit.kind for unit in self.units}) < len(self.units):
            raise FabricError("optical circuit switches: two kinds of units have one name.")

    def unit(self, kind: str) -> UnitKind | None:
        """The kind of units of this name."""
        return next((unit for unit in self.units if unit.kind == kind), None)

    def document(self) -> dict[str, Any]:
        """As plain data, for files."""
        units = [
            {"kind": u.kind, "block": list(u.block), "spares": u.spares, "shared_axes": u.shared_axes,
             "own_switches": u.own_switches}
            for u in self.units
        ]  # fmt: skip
        return {"connect_s": self.connect_s, "spare_ports": self.spare_ports, "units": units}

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Self:
        """What `document()` gave. Raises FabricError for anything else."""
        try:
            units = tuple(
                UnitKind(
                    str(u["kind"]), tuple(map(int, u["block"])), int(u["spares"]), int(u["shared_axes"]),
                    bool(u["own_switches"]),
                )
                for u in document["units"]
            )  # fmt: skip
            return cls(float(document["connect_s"]), int(document["spare_ports"]), units)
        except (KeyError, TypeError, ValueError) as error:
            raise FabricError(
                f"circuits: {document!r} does not describe circuit switches ({error!r}). Write connect_s, "
                "spare_ports and units, each with kind, block, spares, shared_axes and own_switches."
            ) from None
