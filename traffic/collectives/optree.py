"""All-gather by OpTree's stages on an optical ring."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

from railweave.framework.model import Fabric
from railweave.framework.optical.algorithms import plan_of
from railweave.framework.optical.plan import LightpathPlan
from railweave.framework.parameters import Parameter, Value
from railweave.traffic.collectives.optical import BARRIER, STEP, OpticalAllGather


class OpTree(OpticalAllGather):
    """An m-ary tree of stages: subsets exchange round the ring, then inside ever smaller segments.

    Source: Dai et al., arXiv 2211.15119.
    """

    summary = "stages of subsets on a ring, each pair on a wavelength that nobody shares"
    algorithm = "optree"
    parameters: tuple[Parameter, ...] = (
        Parameter("depth", 0, "count", "stages of the tree; 0 takes the depth of fewest steps", minimum=0),
        BARRIER,
    )

    def __init__(self, barrier: str = STEP, depth: int = 0) -> None:
        super().__init__(barrier)
        self._depth = depth

    def configured(self, options: Mapping[str, Value]) -> Self:
        return type(self)(str(options["barrier"]), int(options["depth"]))

    def plan(self, fabric: Fabric) -> LightpathPlan:
        return plan_of(self.algorithm, fabric.n_gpus, self._wavelengths(fabric), self._depth)
