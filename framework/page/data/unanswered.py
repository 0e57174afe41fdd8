"""What a fault would have cost on the old routes, as the model computes it: for runs that do not show it."""

from collections.abc import Mapping
from typing import Any

from railweave.framework.errors import RailweaveError
from railweave.framework.experiment.engines import computing
from railweave.framework.experiment.plan import from_document
from railweave.framework.registry import Registers
from railweave.framework.results.result import RunResult

MOST_TRANSFERS = 2000
"""Transfers of an iteration at most; computing more would take longer than a report may."""
MOST_S = 60_000.0
"""Seconds of an iteration on the model's clock at most: a damaged experiment may have links near 0 b/s."""


def unanswered(document: Mapping[str, Any], result: RunResult, registers: Registers) -> float | None:
    """The time of an iteration that begins with the only fault of an experiment, on the routes from before,
    over that of one without the fault. None where the model cannot carry the experiment out, or not quickly.

    `document`: the experiment, of a small fabric.
    """
    fault = next((fault for fault in result.faults if fault.t_s is not None), None)
    topology, engine, health = (_section(document, name) for name in ("topology", "engine", "health"))
    model = next(iter(computing(registers)), None)
    if fault is None or model is None or topology.get("name") == "file":  # which may not be what it was
        return None
    words = [word for word in fault.text.split() if not word.startswith("at=")]
    changed: dict[str, Any] = {
        "faults": [" ".join(("at=iter:1", *words))], "iterations": 2, "feedback": False, "oracle": False,
        "engine": engine if engine.get("name") == model else {"name": model},
        "health": {**health, "interval": 60.0}, "timeout": MOST_S,  # its samples are not used
        "pcap": [], "trace": "none", "reports": {},
    }  # fmt: skip
    latency_us = result.fabric.packet_latency_us
    try:
        plan = from_document({**document, **changed}, registers)
        plan = plan.at_scale(result.fabric.rate_scale, None if latency_us is None else latency_us * 1e-6)
        if plan.schedule.n_transfers > MOST_TRANSFERS:
            return None
        findings = plan.engine.run(plan, Registers(()), lambda event: None)
    except RailweaveError:
        return None
    before, after = (record.result.seconds for record in findings.iterations)
    return after / before if before > 0 else None


def _section(document: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    section = document.get(name)
    return section if isinstance(section, Mapping) else {"name": section} if section else {}
