"""What a step costs beyond its data: packets, flits, conversion, and lightpaths set anew in a run."""

from railweave.framework.papers.items.item import Claim, Claims
from railweave.framework.papers.items.workbench import Workbench
from railweave.framework.papers.optical.closed_forms import (
    RATE_BPS,
    StepSetup,
    optimal_depth,
    steps,
    time_s,
    wrht_steps,
)
from railweave.framework.parameters.units import parse_time


def o08(
    workbench: Workbench,
    *,
    packet_bytes: int = 128,
    flit_bytes: int = 32,
    cycle: str = "1ns",
    reconfiguration: str = "25us",
    item_bytes: int = 4 << 20,
    nodes: int = 16,
    wavelengths: int = 2,
) -> Claims:
    """Packets, flits and conversion of an item, and the steps of a run that set lightpaths anew."""
    setup = StepSetup(packet_bytes, flit_bytes, parse_time(cycle), parse_time(reconfiguration))
    step_s, data_s = setup.step_s(item_bytes), setup.wire_bytes(item_bytes) * 8 / RATE_BPS
    ring = {"name": "ring", "nodes": nodes, "wavelengths": wavelengths}
    times = {}
    for name, text in (("with", reconfiguration), ("without", "0s")):
        result = workbench.run(
            topology=ring, collective={"name": "optree", "step_time": text}, size=nodes * item_bytes,
            iterations=1,
        )  # fmt: skip
        times[name] = result.summary.declared_time_us
    cost_us = times["with"] - times["without"]
    count = round(cost_us / (1e6 * setup.reconfiguration_s)) if setup.reconfiguration_s else 0
    saved = [_saved(item_bytes, cost) for cost in (setup.reconfiguration_s, step_s)]
    return Claims(
        (
            Claim("flits of a packet", 4, packet_bytes // flit_bytes),
            Claim("packets of an item", None, round(setup.wire_bytes(item_bytes)) // packet_bytes),
            Claim("flits of an item", None, setup.flits(item_bytes)),
            Claim("a step beyond its data", None, 1e6 * step_s, "us"),
            Claim("a step", 1e6 * (data_s + step_s), 1e6 * time_s(1, 1, item_bytes, step_s=step_s), "us"),
            Claim("a run: lightpaths set anew", steps(nodes, wavelengths, 2), count, "steps"),
            Claim("a run: time for it", None, cost_us, "us"),
            Claim("reduction against Wrht, N = 1024, without conversion", saved[0], saved[1], "%"),
        )
    )


def _saved(item_bytes: float, step_s: float, nodes: int = 1024, wavelengths: int = 64) -> float:
    """What OpTree saves against Wrht, in percent, by equation 3."""
    counts = steps(nodes, wavelengths, optimal_depth(nodes)), wrht_steps(nodes, wavelengths)
    ours, theirs = (time_s(count, count, item_bytes, step_s=step_s) for count in counts)
    return 100 * (1 - ours / theirs)
