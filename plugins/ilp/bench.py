"""Solve one torus and print what was found: `python -m railweave.plugins.ilp.bench 8x8x8 X:0,0`."""

from __future__ import annotations

import sys
import time
from dataclasses import replace

from railweave.framework.model import Fabric, HealthSnapshot
from railweave.framework.registry import load
from railweave.plugins.ilp.router import OptimisedRouting


def main(words: list[str]) -> None:
    """`words`: a shape, optionally an OCS that is down, optionally `twisted`."""
    kind = "twisted-torus" if "twisted" in words else "torus"
    shape, *ocs = [word for word in words if word != "twisted"]
    fabric: Fabric = load()["topology"][kind].build({"shape": shape})
    health = HealthSnapshot.healthy(fabric)
    if ocs:
        health = replace(health, down=fabric.ocs == fabric.ocs_names.index(ocs[0]))
    router = OptimisedRouting()
    began = time.perf_counter()
    solution = router.solution(fabric, health)
    print(f"{kind} {shape} {' '.join(ocs) or 'healthy'}: {solution.report}")
    print(f"without cache {time.perf_counter() - began:.2f} s; cut-off pairs per period: {solution.cut}")


if __name__ == "__main__":
    main(sys.argv[1:])
