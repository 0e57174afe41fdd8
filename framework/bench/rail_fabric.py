"""The rail-only fabric that benchmarks of a lab run on."""

import math

from railweave.framework.errors import InputError


def square_rail_only(gpus: int) -> dict[str, object]:
    """Experiment keys of the rail-only fabric of `gpus` GPUs that is closest to as many domains as rails; no
    fault."""
    rails = max(k for k in range(1, math.isqrt(gpus) + 1) if gpus % k == 0)
    if rails == 1:
        raise InputError(
            f"--gpus {gpus}: a rail-only fabric needs domains x rails, and {gpus} is prime. Try {gpus + 1}."
        )
    return {
        "topology": "rail-only",
        "topology.domains": gpus // rails,
        "topology.rails": rails,
        "fault": "none",
    }
