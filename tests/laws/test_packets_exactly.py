"""Laws that the engine `packet` keeps to the picosecond, the byte and the packet, whatever its options."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from railweave.framework.errors import TransportError
from railweave.framework.experiment.plan import Plan
from railweave.framework.model import Fabric
from railweave.framework.model.arrays import Float
from railweave.framework.registry import Registers
from railweave.framework.runs.computed import computed
from railweave.plugins.packet.layout import DEAD, DEADLOCK, NEVER
from railweave.plugins.packet.model import Model
from railweave.plugins.packet.packet_run import PacketRun
from tests.laws import test_bytes_and_limits, test_jobs_apart
from tests.laws.blocks import Block, Case, Drawing
from tests.laws.experiments import (
    QUIET,
    Document,
    Draw,
    chance,
    fabric_of,
    pick,
    registers,
    routers_for,
    some_collective,
    some_element,
    some_faults,
    some_topology,
)
from tests.laws.packets import (
    FULL,
    SMALL,
    on_packets,
    one_path_each,
    picoseconds,
    some_control,
    some_options,
)
from tests.laws.runs import Outcome
from tests.laws.test_scaling import scaled

SHARES = {
    "packets_scale": 3,
    "packets_are_conserved": 3,
    "packets_keep_the_limit": 2,
    "packets_of_jobs_apart": 2,
    "packets_repeat": 2,
}
WHOLE_BPS = (1e11, 2e11, 4e11, 8e11, 1.6e12)
"""Rates at which a byte takes whole picoseconds, and with WHOLE_SHARES of them as well."""
WHOLE_SHARES = ("50%", "25%", "20%", "10%")
SLOWER = (2, 3, 10)
WITHIN = 1e-6
"""Of times where timers of a transport or a control count, which are no whole picoseconds before they are
scaled; or a packet time, as two packets may then meet in the other order."""
GAP_S = 500e-9


# -- scaling ---------------------------------------------------------------------------------------------
def in_whole_picoseconds(draw: Draw, topology: Document) -> Document | None:
    """The topology with other rates; None where that leaves some at which a byte does not take whole ones."""
    changed = dict(topology)
    for parameter in registers()["topology"][topology["name"]].parameters:
        if parameter.unit == "rate":
            changed[parameter.name] = pick(draw, WHOLE_BPS)
    fabric = fabric_of(changed)
    times = np.concatenate((8e12 / fabric.capacity_bps, fabric.latency_s * 1e12))
    return changed if np.allclose(times, np.rint(times), rtol=0, atol=1e-6) else None


def slow_or_lossy(draw: Draw, element: str) -> str:
    if chance(draw, 0.3):
        return f"loss {element} rate={draw.uniform(0.01, 0.2):.2%}"
    return f"degrade {element} to={pick(draw, WHOLE_SHARES)}"


def drawn_slower(drawing: Drawing) -> Case | None:
    draw = drawing.draw
    kinds = [kind for kind in SMALL if kind != "file"]
    if (topology := in_whole_picoseconds(draw, some_topology(draw, kinds))) is None:
        return None
    fabric = fabric_of(topology)
    if not (routers := routers_for(fabric, drawing.router)):
        return None
    factor, options = pick(draw, SLOWER), some_options(draw)
    changed = {**options, "gap": factor * GAP_S} if options["adaptive"] == "flowlet" else options
    control = some_control(draw).get("control", "window")
    if control == "nscc":  # its increases go by a reference round trip of 12 us, whatever the fabric's is
        return None
    parameters = registers()["congestion-control"][control].parameters
    timers = {p.name: p.default for p in parameters if p.unit == "time"}
    slower = {name: factor * time_s for name, time_s in timers.items()}
    document = {"topology": topology, "router": pick(draw, routers), **some_collective(draw, fabric),
                "iterations": 3, "control": {"name": control, **timers}}  # fmt: skip
    if chance(draw, 0.7):
        document["faults"] = [f"at=iter:1 {slow_or_lossy(draw, some_element(draw, fabric))}"]
    if control != "window" or chance(draw, 0.7):
        document |= QUIET
    case = Case(document, ({}, {
        "topology": scaled(topology, 1 / factor), "control": {"name": control, **slower},
        "engine": {"name": "packet", **changed},
    }), {"factor": factor})  # fmt: skip
    return on_packets(case, options)


def judge_scaling(case: Case, outcomes: Sequence[Outcome]) -> str | None:
    one, other = outcomes
    if one.findings is None or other.findings is None:
        return None if bool(one.failed) == bool(other.failed) else f"{one.failed!r} and {other.failed!r}"
    factor = case.notes["factor"]
    timed = case.document["control"]["name"] != "window" or "feedback" not in case.document
    timed |= any(record.result.retransmitted for record in one.found.iterations)
    packet_ps = FULL * 8e12 / float(other.plan.fabric.capacity_bps.min())
    for i, (a, b) in enumerate(zip(*(picoseconds(o.declared_s()) for o in outcomes), strict=True)):
        if abs(b - factor * a) > (max(WITHIN * b, packet_ps) if timed else 0):
            return f"iteration {i} takes {a} ps, {factor} times slower {b} ps ({b / factor / a - 1:+.2e})"
    return None


# -- conservation ----------------------------------------------------------------------------------------
def drawn_with_options(drawing: Drawing) -> Case | None:
    draw = drawing.draw
    topology = some_topology(draw, SMALL)
    fabric = fabric_of(topology)
    if not (routers := routers_for(fabric, drawing.router)):
        return None
    document = {"topology": topology, "router": pick(draw, routers), **some_collective(draw, fabric),
                "iterations": 3, "seed": int(draw.integers(1000)), **some_control(draw)}  # fmt: skip
    if chance(draw, 0.6):
        document["faults"] = some_faults(draw, fabric, 3)
    if "control" in document or chance(draw, 0.6):  # paced pairs give up after hours of the run's clock
        document |= QUIET
    return on_packets(Case(document), some_options(draw))


def settled(plan: Plan) -> Model | None:
    """The model after a run of the plan, once nothing is under way any more; None of a run that fails, and
    where a pair hears nothing any more."""
    run = PacketRun(plan, lambda event: None)
    try:
        computed(plan, run, Registers(()), lambda event: None, None)
    except TransportError:
        return None
    model = run.clock.model
    assert model is not None
    while not model.sim.advance(NEVER - 1):
        if model.sim.s.globals[DEADLOCK] or model.sim.s.globals[DEAD]:
            return None
    return model


def judge_conservation(case: Case, outcomes: Sequence[Outcome]) -> str | None:
    """What comes to a switch leaves it or is dropped there, in packets; and where every packet was sent once,
    each node sends on what it does not receive, and links carry it along the paths, in bytes."""
    plan = outcomes[0].plan
    if outcomes[0].findings is None or (model := settled(plan)) is None:
        return None
    fabric, link = plan.fabric, model.sim.s.link
    came = _at_nodes(fabric, fabric.link_dst, link["sent_packets"] - link["lost"])
    went = _at_nodes(fabric, fabric.link_src, link["sent_packets"] + link["drops"])
    switches = slice(fabric.n_gpus, None)
    if (came != went)[switches].any():
        node = fabric.n_gpus + int(np.argmax(came[switches] != went[switches]))
        return f"{came[node]:.0f} packets come to {fabric.node_name(node)}, {went[node]:.0f} leave it"
    if waiting := int(link["queued"].sum() + link["in_nic"].sum()):
        return f"{waiting} bytes wait at the end"
    if any(record.result.retransmitted for record in outcomes[0].found.iterations):
        return None
    return _judge_bytes(plan, outcomes[0], link["data_bytes"].astype(np.float64))


def _at_nodes(fabric: Fabric, node: NDArray[Any], values: NDArray[Any]) -> Float:
    return np.bincount(node, values, fabric.n_nodes).astype(np.float64)


def _judge_bytes(plan: Plan, outcome: Outcome, carried: Float) -> str | None:
    fabric = plan.fabric
    listed = plan.on_gpus(plan.schedule).expand()
    sends = listed.is_transfer
    src, dst = listed.src[sends].astype(np.int64), listed.dst[sends].astype(np.int64)
    wire = plan.packet.wire_bytes_of(listed.size[sends]) * plan.experiment.iterations
    added = _at_nodes(fabric, fabric.link_src, carried) - _at_nodes(fabric, fabric.link_dst, carried)
    wrong = added != _at_nodes(fabric, src, wire) - _at_nodes(fabric, dst, wire)
    if wrong.any():
        node = int(np.argmax(wrong))
        return f"{fabric.node_name(node)} sends {added[node]:.0f} bytes of data more than it receives"
    if outcome.rerouted or not one_path_each(plan):
        return None
    paths = plan.router.routes(fabric, outcome.healthy).paths(src, dst)
    expected = np.bincount(paths.links, wire[paths.path_pair][paths.hop_path], fabric.n_links)
    if np.array_equal(expected, carried):
        return None
    at = int(np.argmax(np.abs(expected - carried)))
    return f"{fabric.link_name(at)} carried {carried[at]:.0f} bytes, {expected[at]:.0f} go over it"


# -- limits, jobs, seeds ---------------------------------------------------------------------------------
def drawn_limit(drawing: Drawing) -> Case | None:
    case = test_bytes_and_limits.drawn_with_faults(drawing)
    return on_packets(case, some_options(drawing.draw))


def drawn_jobs(drawing: Drawing) -> Case | None:
    """Ports that share a memory belong to both jobs."""
    options = some_options(drawing.draw)
    if options.get("buffer_model") == "shared":
        return None
    return on_packets(test_jobs_apart.drawn(drawing), options)


def cables_used(outcome: Outcome) -> set[int]:
    """Answers go back over the cables of the data."""
    return {link // 2 for link in test_jobs_apart.links_used(outcome)}


def judge_jobs(case: Case, outcomes: Sequence[Outcome]) -> str | None:
    """Draws are those of a pair of a job with its number: the second job, alone, is another one."""
    together, *alone = outcomes
    if any(outcome.findings is None for outcome in outcomes):
        return None
    if cables_used(alone[0]) & cables_used(alone[1]) or together.rerouted:
        return None
    drawn = bool(draws(together))
    for number, one in enumerate(alone[: 1 if drawn else 2]):
        for i, (a, b) in enumerate(zip(together.seconds(number), one.seconds(), strict=True)):
            if abs(a - b) > 1e-12 * b:
                return f"iteration {i} of job {number} takes {a!r} s, alone {b!r} s"
    return None


def draws(outcome: Outcome) -> str:
    """What of a run depends on draws, if anything does."""
    links, options = outcome.found.links, outcome.plan.experiment.engine.options
    if links.lost.any():
        return "losses"
    if np.nansum(links.marked):
        return "marks"
    return "ties" if options["adaptive"] != "off" else ""


def drawn_repeated(drawing: Drawing) -> Case | None:
    if (case := drawn_with_options(drawing)) is None:
        return None
    seed = case.document["seed"]
    return Case(case.document, ({"seed": seed}, {"seed": seed}, {"seed": seed + 1}))


def judge_repetition(case: Case, outcomes: Sequence[Outcome]) -> str | None:
    first, again, other = ([*outcome.seconds(), *counts(outcome)] for outcome in outcomes)
    if first != again:
        return "equal seeds give other times or counts"
    if outcomes[0].findings is None or any(draws(outcome) for outcome in outcomes if outcome.findings):
        return None
    return None if first == other else "nothing is drawn, and another seed gives other times or counts"


def counts(outcome: Outcome) -> list[float]:
    if outcome.findings is None:
        return [inf]
    links = outcome.found.links
    return np.concatenate((links.sent_bytes, links.sent_packets, links.drops, links.lost)).tolist()


def test_packets_scale(block: Block) -> None:
    block.check(drawn_slower, judge_scaling)


def test_packets_are_conserved(block: Block) -> None:
    block.check(drawn_with_options, judge_conservation)


def test_packets_keep_the_limit(block: Block) -> None:
    block.check(drawn_limit, test_bytes_and_limits.judge_limit)


def test_packets_of_jobs_apart(block: Block) -> None:
    block.check(drawn_jobs, judge_jobs)


def test_packets_repeat(block: Block) -> None:
    block.check(drawn_repeated, judge_repetition)
