"""Drawn experiments carried out on the engine `packet`, packet by packet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from railweave.framework.errors import InputError
from railweave.framework.experiment.plan import Plan
from railweave.framework.model import PacketFormat
from tests.laws.blocks import Case
from tests.laws.experiments import KINDS, Document, Draw, chance, pick
from tests.laws.runs import plan_of

SMALL = tuple(kind for kind in KINDS if kind != "twisted-torus")
MOST_EVENTS = 600_000
"""Of a run: a fifth of a second of one core."""
PACKET = PacketFormat()
FULL = PACKET.full_packet_bytes + PACKET.RETH
IDEAL: Document = {"name": "packet", "window": "ideal"}
CONTROLS = ("dcqcn", "swift", "nscc")


def on_packets(case: Case | None, options: Mapping[str, Any], least_packets: int = 1) -> Case | None:
    """The case on the engine with these options, its sizes a multiple such that messages have so many packets
    at least. None where it cannot be, or its runs would have too many events."""
    if case is None:
        return None
    document = {**case.document, "engine": {"name": "packet", **options}}
    try:
        plan = plan_of({**document, **case.variants[0]})
        times = _times(plan, least_packets)
        if times is None:
            return None
        if times > 1:
            document["size"] = times * int(str(document["size"]))
            plan = plan_of({**document, **case.variants[0]})
        events = plan.engine.estimate(plan).events
    except InputError:
        return None
    return replace(case, document=document) if (events or 0) <= MOST_EVENTS else None


def _times(plan: Plan, least_packets: int) -> int | None:
    """By what sizes are to be multiplied; None where nothing is sent."""
    schedule = plan.schedule
    if not schedule.is_transfer.any():
        return None
    smallest = int(schedule.size[schedule.is_transfer].min())
    return max(1, -(-(least_packets * PACKET.path_mtu) // smallest)) if least_packets > 1 else 1


def one_path_each(plan: Plan) -> bool:
    return all(len(paths.weight) == len(paths.src) for paths in plan.first_paths)


def some_options(draw: Draw) -> Document:
    """Of the engine: how switches carry packets, what they drop, trim, mark and pause."""
    options: Document = {
        "window": pick(draw, ("ideal", "transport")),
        "switching": pick(draw, ("store-and-forward", "store-and-forward", "cut-through")),
        "queue": pick(draw, ("fifo", "fifo", "fair")),
        "nic": pick(draw, ("in-turn", "fifo")),
        "ack_every": int(pick(draw, (1, 4, 8))),
        "adaptive": pick(draw, ("off", "off", "packet", "flowlet")),
    }
    room = int(draw.integers(4, 40)) * FULL
    kind = pick(draw, ("none", "drops", "trims", "pauses", "shared"))
    if kind in ("drops", "trims"):
        options |= {"buffer": room, "trimming": kind == "trims"}
    elif kind == "pauses":
        options |= {"pfc": True, "xoff": room}
    elif kind == "shared":
        options |= {"buffer_model": "shared", "buffer": 4 * room, "alpha": float(pick(draw, (0.5, 1.0, 4.0)))}
    if chance(draw, 0.3):
        kmin = int(draw.integers(0, 20)) * FULL
        options |= {"marks": "on", "kmin": kmin, "kmax": kmin + int(draw.integers(1, 40)) * FULL}
        options["marks_at"] = pick(draw, ("enqueue", "dequeue"))
    return options


def some_control(draw: Draw) -> Document:
    """The window of the transport, mostly, or a congestion control with its usual parameters."""
    return {"control": pick(draw, CONTROLS)} if chance(draw, 0.3) else {}


def picoseconds(declared_s: list[float]) -> list[int]:
    return [int(ps) for ps in np.rint(np.array(declared_s) * 1e12)]
