"""Items about cubes and circuits: a pod composed, a cube replaced, step times with a switch down."""

import numpy as np

from railweave.framework.experiment.circuit_board import unit_named
from railweave.framework.model import Fabric
from railweave.framework.papers.items.item import Claim, Claims
from railweave.framework.papers.items.swaps import swap
from railweave.framework.papers.items.tpuv4.routes import OCS_OF_X, PLAIN, TWISTED, t08, torus
from railweave.framework.papers.items.workbench import Workbench

STEP_LOSSES = (("RM-1", 0.5), ("RM-4", 8.6), ("LLM-1", 2.6), ("BERT-1", 1.2))
"""Table 3: what step times lose on fault-tolerant routes, in percent."""
NEIGHBOURS = {"collective": "send-recv", "size": "1M"}
"""Of runs in which a cube is replaced: one step, as a lab's latency counts in each."""


def t09(
    workbench: Workbench,
    *,
    shape: str = "4x4x4",
    fault: str = OCS_OF_X,
    losses: tuple[tuple[str, float], ...] = STEP_LOSSES,
) -> Claims:
    """How much longer the collectives of a step take by runs, and which share of a step would then have to be
    exposed all-reduce for the printed loss."""
    longer = {}
    for name in ("multi-ring-all-reduce", "direct-all-to-all"):
        result = workbench.run(
            topology=torus(PLAIN, shape), router="wfr", collective=name, size="4M", iterations=4, oracle=True,
            faults=[f"at=iter:1 {fault}"],
        )  # fmt: skip
        times = [row.declared_time_us for row in result.rows if row.iteration is not None]
        longer[name] = times[-1] / times[0]
    reduce, exchange = longer.values()
    figures = [
        Claim("all-reduce over healthy: its rings fall to 50 %", 2.0, reduce),
        Claim("all-to-all over healthy", None, exchange),
        Claim("all-reduce loses more than all-to-all", True, reduce > exchange),
    ]
    for model, loss in losses:
        share = loss / (reduce - 1)
        figures.append(
            Claim(f"{model}, loss {loss:g} %: exposed all-reduce in a step", 100.0, share, "%", "<")
        )
    return Claims(tuple(figures))


def t13(
    workbench: Workbench,
    *,
    pod: str = "16x16x16",
    shape: str = "4x4x8",
    spare_cubes: int = 1,
    connect: str = "25us",
) -> Claims:
    """Ports and circuits of a pod, what a twist sets differently, and a cube that is replaced in a run."""
    pod_fabric = workbench.fabric(PLAIN, shape=pod)
    used = np.bincount(pod_fabric.ocs[pod_fabric.ocs >= 0], minlength=len(pod_fabric.ocs_names))
    plain, twisted = (workbench.fabric(kind, shape=shape) for kind in (PLAIN, TWISTED))
    electrical, optical = (len(_cables(plain, over) - _cables(twisted, over)) // 2 for over in (False, True))
    topology = {**torus(PLAIN, shape), "spare_cubes": spare_cubes, "ocs_time": connect}
    made = swap(workbench, ("cube:0.0.1",), "gpu:0.0.5", topology=topology, **NEIGHBOURS)
    return Claims(
        (
            Claim("OCSes of a pod", 48, len(pod_fabric.ocs_names)),
            Claim("ports in use of each", 128, int(used.max())),
            Claim("ports of each with the spare ones", 136, int(used.max()) + _spare_ports(pod_fabric)),
            Claim("optical links of a cube", 96, _optical_ends(pod_fabric, "0.0.0")),
            Claim("cables inside cubes that a twist changes", 0, electrical),
            Claim("circuits that a twist sets differently", None, optical),
            *made.claims("cube replaced", connect, _circuits_of(plain, "0.0.1")),
        )
    )


def t14(
    workbench: Workbench,
    *,
    shape: str = "8x8x8",
    fault: str = OCS_OF_X,
    router: str = "spray",
    slice_: str = "4x4x8",
    outage: str = "0.3s",
) -> Claims:
    """Nearest neighbours over all shortest paths, and a cube replaced in the middle of an iteration."""
    ours, single = (
        t08(workbench, shape=shape, router=name, fault=fault).figures[0].ours for name in (router, "wfr")
    )
    assert isinstance(ours, float) and isinstance(single, float)
    faults = ["at=iter:1+0.1s down cube:0.0.1", f"at=iter:1+{outage} replace cube:0.0.1"]
    result = workbench.run(
        topology={**torus(PLAIN, slice_), "spare_cubes": 1}, iterations=4, feedback=False, faults=faults,
        **NEIGHBOURS,
    )  # fmt: skip
    times = [row.declared_time_us for row in result.rows if row.iteration is not None]
    return Claims(
        (
            Claim("nearest neighbours, one path: throughput with an OCS down", 0.5, single),
            Claim("nearest neighbours, spread: throughput with an OCS down", single, ours, bound=">"),
            Claim("hot swap: iterations that end, of 4", 4, len(times)),
            Claim("hot swap: iteration of the failure over the one before", None, times[1] / times[0]),
            Claim("hot swap: iterations after over before", 1.0, times[-1] / times[0]),
        )
    )


def _cables(fabric: Fabric, optical: bool) -> set[tuple[int, int]]:
    """The cables inside cubes, or those between them, by their ends; once in each direction."""
    links = np.flatnonzero((fabric.ocs >= 0) == optical)
    return set(zip(fabric.link_src[links].tolist(), fabric.link_dst[links].tolist(), strict=True))


def _spare_ports(fabric: Fabric) -> int:
    return 0 if fabric.circuits is None else fabric.circuits.spare_ports


def _members(fabric: Fabric, cube: str) -> np.ndarray:
    assert fabric.circuits is not None
    unit = fabric.circuits.unit("cube")
    assert unit is not None
    return unit_named(fabric, unit, cube)[1]


def _optical_ends(fabric: Fabric, cube: str) -> int:
    """Links over an OCS that leave the GPUs of a cube."""
    return int((_members(fabric, cube)[fabric.link_src] & (fabric.ocs >= 0)).sum())


def _circuits_of(fabric: Fabric, cube: str) -> int:
    """Cables over an OCS with an end at a cube."""
    members = _members(fabric, cube)
    touching = (members[fabric.link_src] | members[fabric.link_dst]) & (fabric.ocs >= 0)
    return int(touching[0::2].sum())
