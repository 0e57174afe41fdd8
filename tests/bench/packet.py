"""The engine `packet`: processor seconds, packets over links a second, and memory of its workloads."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from railweave.framework.errors import InputError, did_you_mean
from railweave.framework.experiment.plan import Plan, plan_from_keys
from railweave.framework.model.events import RunEvent
from railweave.framework.registry import Registers, load_plugins

TREE = {"topology": "fat-tree", "k": 16, "iterations": 1, "feedback": False, "rate_scale": 1e-4}
PERMUTATION = TREE | {"collective": "permutation", "size": 2_000_000}
LOSSLESS = {"name": "packet", "pfc": True}
SMALL = {"k": 4, "size": 200_000}


@dataclass(frozen=True, slots=True)
class PacketCase:
    """One experiment: its keys, as `rw.run` takes them; the seconds that it should take; and a fault of the
    cable in the middle of a path between the first GPU and the last."""

    name: str
    keys: Mapping[str, object]
    goal_s: float
    fault: str = ""


ROWS = (
    PacketCase(
        "permutation REPS, a cable dies",
        PERMUTATION | {"router": "spray", "chooser": "reps"},
        1.5,
        "at=100ms down link:{middle}",  # 10 us declared
    ),
    PacketCase("permutation ecmp DCQCN", PERMUTATION | {"router": "ecmp", "control": "dcqcn"}, 3),
    PacketCase(
        "permutation ecmp DCQCN PFC",
        PERMUTATION | {"router": "ecmp", "control": "dcqcn", "engine": LOSSLESS},
        3,
    ),
    PacketCase(
        "all-to-all 128",
        TREE | {"router": "spray", "k": 8, "collective": "direct-all-to-all", "size": 128 << 20},
        15,
    ),
    PacketCase(
        "all-reduce 8x128, a NIC grey",
        {
            "topology": "rail-only", "domains": 8, "rails": 128, "collective": "all-reduce",
            "size": 64 << 20, "iterations": 1,
        },
        30,
        "at=500ms degrade nic:0.0 to=20%",
    ),
    PacketCase(
        "incast 511 DCQCN",
        TREE | {"router": "ecmp", "collective": "incast", "size": 1_000_000, "ranks": "gpu:0-7.*.*",
                "control": "dcqcn", "rate_scale": "auto"},
        1,
    ),
)  # fmt: skip
QUICK = (
    PacketCase("permutation REPS, a cable dies", {**ROWS[0].keys, **SMALL}, 1, "at=10ms down link:{middle}"),
    PacketCase("permutation ecmp DCQCN", {**ROWS[1].keys, **SMALL}, 1),
)


def packet(rows: str, quick: bool, report: Callable[[str], None]) -> dict[str, Any]:
    """`rows`: those whose names contain one of these words, all if empty. `quick`: two small ones.

    Seconds are those of the processor, of the run without its plan, after a run that compiles. `hops`:
    packets over links, acknowledgements included.
    """
    registers = load_plugins()
    chosen = QUICK if quick else _chosen(rows)
    began_s = time.process_time()
    for case in QUICK:
        _measured(case, registers)
    compiled_s = time.process_time() - began_s
    table = []
    for case in chosen:
        report(case.name)
        table.append({"row": case.name, "goal_s": case.goal_s, **_measured(case, registers)})
    return {"rows": table, "first_runs_s": compiled_s}


def _chosen(words: str) -> tuple[PacketCase, ...]:
    """Raises InputError for a word that no row has."""
    wanted = [word.strip() for word in words.split(",") if word.strip()]
    names = [row.name for row in ROWS]
    for word in wanted:
        if not any(word in name for name in names):
            raise InputError(
                f"rows: no row has {word!r} in its name; there are: {'; '.join(names)}."
                f"{did_you_mean(word, names)}"
            )
    return tuple(row for row in ROWS if not wanted or any(word in row.name for word in wanted))


def _measured(case: PacketCase, registers: Registers) -> dict[str, Any]:
    """Figures of one run."""
    keys = {"engine": "packet", **case.keys}
    if case.fault:
        healthy = plan_from_keys(keys, registers)
        keys["faults"] = [case.fault.format(middle=_middle(healthy))]
    plan = plan_from_keys(keys, registers)
    events = list[RunEvent]()
    began_s = time.process_time()
    findings = plan.engine.run(plan, Registers(()), events.append)
    took_s = time.process_time() - began_s
    (record,) = findings.iterations
    hops = findings.facts.counts["packet_hops"]
    return {
        "cpu_s": took_s,
        "hops": hops,
        "hops_per_s": hops / took_s,
        "memory_mb": (findings.facts.memory_peak_bytes or 0) / 1e6,
        "declared_us": record.result.seconds * findings.rate_scale * 1e6,
        "packets": record.result.packets_sent,
        "again": record.result.retransmitted,
        "marked": record.result.marked,
    }


def _middle(plan: Plan) -> str:
    """The link in the middle of the first path from the first GPU to the last."""
    links = plan.healthy_table.path(0, plan.fabric.n_gpus - 1)[0].links
    return plan.fabric.link_name(int(np.asarray(links)[len(links) // 2]))
