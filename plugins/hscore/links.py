"""A rail-only fabric as index arrays: which link leads from a GPU to its switches and back."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from railweave.framework.errors import FabricError, UnsupportedFabricError
from railweave.framework.model import Fabric
from railweave.framework.model.arrays import Bool, Int32, Int64

SERVES = ("rail-only",)

NONE, D, R, RD, DR, DRD = range(6)
KINDS = ("none", "d", "r", "rd", "dr", "drd")
LONGEST = 6


@dataclass(frozen=True)
class RailLinks:
    """(n_gpus,) link ids each: up leads from the GPU to its switch, down from the switch to the GPU.

    GPU (d, g) has id d * rails + g.
    """

    domains: int
    rails: int
    d_up: Int32
    d_down: Int32
    r_up: Int32
    r_down: Int32

    @classmethod
    def of(cls, fabric: Fabric) -> RailLinks:
        """Raises UnsupportedFabricError for other kinds, FabricError if a GPU lacks an interface."""
        domain, rail = fabric.group("domain"), fabric.group("rail")
        if fabric.kind not in SERVES or domain is None or rail is None:
            raise UnsupportedFabricError(
                f"router hscore does not serve {fabric.kind}: it serves {', '.join(SERVES)}. "
                "Use `--router shortest`, which serves every fabric."
            )
        if fabric.groups[0].shape != (domain.size, rail.size):
            raise FabricError(
                f"{fabric.kind} of GPUs {fabric.groups[0].shape}: with {domain.size} domains and {rail.size} rails "
                f"they must be ({domain.size}, {rail.size})."
            )
        gpu = np.arange(fabric.n_gpus)
        d_up, d_down = _between(fabric, domain.first + gpu // rail.size)
        r_up, r_down = _between(fabric, rail.first + gpu % rail.size)
        return cls(domain.size, rail.size, d_up, d_down, r_up, r_down)

    def hops(self, src: Int64, dst: Int64, kind: Int64, via: Int64) -> Int32:
        """(P, 6): the links of each pair's path, -1 behind its end; `via` is the rail of a drd-path."""
        hops = np.full((len(src), LONGEST), -1, np.int32)
        for which in range(D, DRD + 1):
            rows = np.flatnonzero(kind == which)
            if not rows.size:
                continue
            a, b = src[rows], dst[rows]
            before, after = a - a % self.rails, b - b % self.rails  # first GPU of either domain
            match which:
                case 1:  # D
                    columns = [self.d_up[a], self.d_down[b]]
                case 2:  # R
                    columns = [self.r_up[a], self.r_down[b]]
                case 3:  # RD
                    turn = after + a % self.rails
                    columns = [self.r_up[a], self.r_down[turn], self.d_up[turn], self.d_down[b]]
                case 4:  # DR
                    turn = before + b % self.rails
                    columns = [self.d_up[a], self.d_down[turn], self.r_up[turn], self.r_down[b]]
                case _:  # DRD
                    out, back = before + via[rows], after + via[rows]
                    columns = [
                        self.d_up[a], self.d_down[out], self.r_up[out],
                        self.r_down[back], self.d_up[back], self.d_down[b],
                    ]  # fmt: skip
            for column, links in enumerate(columns):
                hops[rows, column] = links
        return hops


def whole(hops: Int32, dead: Bool) -> Bool:
    """(P,): whether no link of the path is dead."""
    padded = np.append(dead, False)  # -1, behind the end of a path, finds the False
    return np.asarray(~padded[hops].any(axis=1), np.bool_)


def _between(fabric: Fabric, switch: Int64) -> tuple[Int32, Int32]:
    """The links from each GPU to `switch[gpu]` and back; the lowest ids where cables are parallel."""
    up, down = np.full(fabric.n_gpus, -1, np.int32), np.full(fabric.n_gpus, -1, np.int32)
    leaving = np.flatnonzero(fabric.link_src < fabric.n_gpus)
    leaving = leaving[fabric.link_dst[leaving] == switch[fabric.link_src[leaving]]][::-1]
    up[fabric.link_src[leaving]] = leaving
    arriving = np.flatnonzero(fabric.link_dst < fabric.n_gpus)
    arriving = arriving[fabric.link_src[arriving] == switch[fabric.link_dst[arriving]]][::-1]
    down[fabric.link_dst[arriving]] = arriving
    bare = np.flatnonzero((up < 0) | (down < 0))
    if bare.size:
        raise FabricError(
            f"{fabric.kind}: {fabric.node_name(int(bare[0]))} has no cable to "
            f"{fabric.node_name(int(switch[bare[0]]))}. Every GPU of the kind has a d- and an r-interface; "
            "report a dead cable in HealthSnapshot.down."
        )
    return up, down
