"""A compact schedule takes the times of its list of transfers, whatever the sizes of its repetitions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from railweave.framework.errors import FabricError
from railweave.framework.experiment.plan import Plan
from railweave.framework.model import Schedule
from railweave.framework.model.arrays import Float
from railweave.framework.solver.quotient import NetworkState
from railweave.framework.solver.reduction import quotients
from railweave.framework.solver.simulation import FlowSimulation
from tests.laws.blocks import Block, Case, Drawing
from tests.laws.experiments import fabric_of, pick, routers_for, some_collective, some_topology
from tests.laws.runs import Outcome

SHARES = {"repetitions_have_their_own_sizes": 10}
WITHIN = 1e-9
PATH_MTUS = (256, 1024, 4096)


def drawn(drawing: Drawing) -> Case | None:
    draw = drawing.draw
    topology = some_topology(draw)
    fabric = fabric_of(topology)
    if not (routers := routers_for(fabric, drawing.router)):
        return None
    traffic = some_collective(draw, fabric)
    traffic["size"] += 4 * int(draw.integers(0, 5000))
    packets = {"path_mtu": pick(draw, PATH_MTUS)}
    return Case({"topology": topology, "router": pick(draw, routers), **traffic, **packets, "iterations": 1})


def simulated(plan: Plan, schedule: Schedule) -> tuple[float, Float]:
    """Seconds, and the bits of every link (n_links,)."""
    states = (NetworkState(plan.first_paths[0], plan.fabric.capacity_bps),)
    (reduced,) = quotients((schedule,), plan.fabric, states, plan.packet)
    simulation = FlowSimulation(reduced.networks[0], batch=0.0)
    job = simulation.add(reduced.tasks)
    simulation.advance()
    carried = np.append(simulation.carried_bits(), 0.0)
    return float(simulation.end_s(job).max()), carried[reduced.link_class]


def judge(case: Case, outcomes: Sequence[Outcome]) -> str | None:
    plan = outcomes[0].plan
    schedule = plan.on_gpus(plan.schedule)
    if not schedule.is_transfer.any() or schedule.seconds.any():
        return None  # a list has no computations
    try:
        listed = schedule.expand()
    except FabricError:
        return None  # too long
    (took_s, carried), (listed_s, each) = (simulated(plan, one) for one in (schedule, listed))
    if abs(took_s - listed_s) > WITHIN * listed_s:
        return f"takes {took_s:.10g} s, listed {listed_s:.10g} s ({took_s / listed_s - 1:+.2e})"
    if np.abs(carried - each).max() > WITHIN * each.max():
        link = int(np.argmax(np.abs(carried - each)))
        return f"{plan.fabric.link_name(link)} carries {carried[link]:.0f} bits, listed {each[link]:.0f}"
    return None


def test_repetitions_have_their_own_sizes(block: Block) -> None:
    block.check(drawn, judge)
