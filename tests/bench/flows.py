"""How far times of flows are from times of packets, by size of messages, transport, queues and fabric: the
engine `fluid` next to the engine `packet`, and what the first says of it beforehand."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any

from railweave.framework.errors import TransportError
from railweave.framework.experiment.plan import plan_from_keys
from railweave.framework.judging.run_result import run_result
from railweave.framework.parameters.units import size as size_text
from railweave.framework.registry import Registers, load_plugins
from railweave.framework.results.figures import Row

SIZES = tuple(4096 << 2 * step for step in range(6))
FABRICS: Mapping[str, tuple[Mapping[str, object], tuple[str, ...]]] = {
    "rail-only": ({"name": "rail-only", "domains": 4, "rails": 4}, ("domain_latency", "rail_latency")),
    "rail-optimised": (
        {"name": "rail-optimised", "domains": 4, "rails": 4},
        ("domain_latency", "rail_latency", "spine_latency"),
    ),
    "ring": ({"name": "ring", "nodes": 16}, ("latency",)),
    "torus": ({"name": "torus", "shape": "4x4"}, ("link_latency",)),
    "fat tree": ({"name": "fat-tree", "k": 4}, ("link_latency",)),
}
"""16 GPUs each, and the options that are latencies."""
ROUTERS = {"ring": "shortest", "torus": "dor"}
"""Of the others `ecmp`."""
TRAFFIC = {
    "all-reduce, ring": "ring-all-reduce",
    "all-to-all": "direct-all-to-all",
    "permutation": "permutation",
    "incast": "incast",
    "all-reduce, rails": "all-reduce",
}
LATENCIES_S = (0.0, 500e-9)
FAIR = {"engine": {"name": "packet", "window": "ideal", "queue": "fair"}}
TRANSPORTS: Mapping[str, Mapping[str, object]] = {
    "ideal windows, fair queues": FAIR,
    "ideal windows": {"engine": {"name": "packet", "window": "ideal"}},
    "window": {"engine": "packet"},
    "swift": {"engine": "packet", "control": "swift"},
    "nscc": {"engine": "packet", "control": "nscc"},
    "dcqcn": {"engine": "packet", "control": "dcqcn"},
}
"""Those without a word on it have queues that are first in, first out."""


@dataclass(frozen=True, slots=True)
class Apart:
    """One case: how much longer packets take than flows, and what was said of it, as shares of the time of
    flows."""

    fabric: str
    traffic: str
    latency_s: float
    message_bytes: int
    transport: str
    flows_us: float
    measured: float
    stated: float


def flows(quick: bool, report: Callable[[str], None]) -> dict[str, Any]:
    """`quick`: two sizes without latencies. Shares are in % of the time of flows.

    `fabrics`, without latencies, in ideal windows and fair queues: measured and stated, by size of messages.
    `transports`: measured less stated of all cases, the median and the largest, by size of messages.
    """
    cases = list(_cases(SIZES[1:3] if quick else SIZES, LATENCIES_S[: 1 if quick else 2], report))
    return {"fabrics": _by_fabric(cases), "transports": _by_transport(cases)}


def _cases(
    sizes: tuple[int, ...], latencies_s: tuple[float, ...], report: Callable[[str], None]
) -> Iterator[Apart]:
    registers = load_plugins()
    for fabric, (topology, latencies) in FABRICS.items():
        for traffic, collective in TRAFFIC.items():
            if collective == "all-reduce" and not fabric.startswith("rail"):
                continue
            report(f"{fabric}, {traffic}")
            for latency_s in latencies_s:
                keys = {
                    "topology": {**topology, **dict.fromkeys(latencies, latency_s)},
                    "router": ROUTERS.get(fabric, "ecmp"), "collective": collective, "iterations": 1,
                    "feedback": False, "faults": [],
                }  # fmt: skip
                for message_bytes in sizes:
                    keys["size"] = message_bytes * _messages(keys, registers)
                    flow = _row({**keys, "engine": "fluid"}, registers)
                    assert flow is not None and flow.packet_delay_us is not None
                    stated = flow.packet_delay_us / flow.time_us
                    for transport, changed in TRANSPORTS.items():
                        if (row := _row({**keys, **changed}, registers)) is not None:
                            yield Apart(
                                fabric, traffic, latency_s, message_bytes, transport, flow.declared_time_us,
                                row.declared_time_us / flow.declared_time_us - 1, stated,
                            )  # fmt: skip


def _messages(keys: Mapping[str, object], registers: Registers) -> int:
    """How many times its largest message the size of a collective is."""
    size = 1 << 22
    schedule = plan_from_keys({**keys, "size": size, "engine": "fluid"}, registers).schedule
    return size // int(schedule.size[schedule.is_transfer].max())


def _row(keys: Mapping[str, object], registers: Registers) -> Row | None:
    """Of the only iteration; None where the transport gave up."""
    plan = plan_from_keys(keys, registers)
    try:
        findings = plan.engine.run(plan, Registers(()), lambda event: None)
    except TransportError:
        return None
    return run_result(plan, findings, 0.0, lambda text: None).rows[0]


def _by_fabric(cases: list[Apart]) -> list[dict[str, object]]:
    rows: dict[tuple[str, str], dict[str, object]] = {}
    for case in cases:
        if not case.latency_s and TRANSPORTS[case.transport] is FAIR:
            row = rows.setdefault(
                (case.fabric, case.traffic), {"fabric": case.fabric, "traffic": case.traffic}
            )
            row[size_text(case.message_bytes)] = _percent(case.measured), _percent(case.stated)
    return list(rows.values())


def _by_transport(cases: list[Apart]) -> list[dict[str, object]]:
    rows: dict[tuple[str, float], dict[str, object]] = {}
    for case in cases:
        row = rows.setdefault(
            (case.transport, case.latency_s), {"transport": case.transport, "latency_s": case.latency_s}
        )
        of_size = [
            _percent(other.measured - other.stated)
            for other in cases
            if (other.transport, other.latency_s, other.message_bytes)
            == (case.transport, case.latency_s, case.message_bytes)
        ]
        row[size_text(case.message_bytes)] = median(of_size), max(of_size, key=abs)
    return list(rows.values())


def _percent(share: float) -> float:
    return round(100 * share, 3)
