"""Whether the routes of all pairs of a fabric fit into the memory of this machine."""

from railweave.framework.model import Fabric
from railweave.framework.processes.memory import machine_bytes

PAIR_BYTES = 200
"""Memory of a pair's first routes while they are made and checked; measured with 2,048 GPUs."""


def why_too_large(fabric: Fabric) -> str:
    """Why the routes of all pairs would not fit, in a sentence; empty if they do."""
    pairs = fabric.n_gpus * (fabric.n_gpus - 1)
    needed, available = pairs * PAIR_BYTES, machine_bytes()
    if available is None or needed <= available:
        return ""
    return (
        f"{fabric.n_gpus} GPUs are {pairs:.3g} pairs, whose routes take about {needed / 1e9:.3g} GB; "
        f"this machine has {available / 1e9:.3g} GB. Choose a smaller fabric."
    )
