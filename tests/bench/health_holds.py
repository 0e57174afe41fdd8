"""Healthy fabrics under loads that must not look like sickness: idle, collectives, TCP at full rate, a busy
machine; and what was healthy all along, after a fault.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from threading import Thread
from typing import Any

import numpy as np

from railweave.bench.cpu_bursts import cpu_bursts
from railweave.bench.health_rows import Case
from railweave.bench.tcp_flows import TcpFlows
from railweave.framework.errors import RailweaveError
from railweave.framework.experiment.plan import Plan
from railweave.framework.lab.plugin import in_lab
from railweave.framework.lab.switching.host_addresses import address_hosts
from railweave.framework.lab.tasks.run import LabSession, lab_task
from railweave.framework.model import Fabric
from railweave.framework.model.events import RunEvent
from railweave.framework.model.findings import Findings
from railweave.framework.routing.reroute import first_routes

IDLE, LOAD, TCP, BURSTS, TWO_LABS, AFTER = "idle", "load", "tcp", "cpu bursts", "two labs", "after a fault"
EVERYWHERE, ONCE = (IDLE, LOAD, TCP), (BURSTS, TWO_LABS)
HOLD_S = 60.0
FLOWS = 2
"""TCP flows of each pair: what one that lost packets leaves free, others take."""


def hold_cases(fabrics: Mapping[str, object], fault: str, iterations: int) -> list[Case]:
    """Every fabric under each load; a busy machine, and after a fault of a run, on the first."""
    first, *_ = fabrics
    return [
        *(Case(fabric, hold=hold, hold_s=HOLD_S) for hold in EVERYWHERE for fabric in fabrics),
        *(Case(first, hold=hold, hold_s=HOLD_S) for hold in ONCE),
        Case(first, "1M", fault, "hscore", iterations, AFTER, HOLD_S),
    ]


def kept(plan: Plan, hold: str, seconds: float) -> list[Findings]:
    """What each lab of the plan found under the load `hold`, which lasts for `seconds`; the schedule of the
    plan is the collective. Raises as `in_lab` does."""

    def one() -> Findings:
        message = {"document": plan.document(), "hold": hold, "seconds": seconds}
        findings: Findings = in_lab(__name__, message, lambda _: None)
        return findings

    if hold == TWO_LABS:
        return both(one)
    if hold != BURSTS:
        return [one()]
    bursts = cpu_bursts()
    try:
        return [one()]
    finally:
        bursts.stop()


def both(call: Callable[[], Findings]) -> list[Findings]:
    """The results of two calls at the same time, or the error of one. Once interrupted, nothing is waited
    for: the second lab ends with this process."""
    results: list[Findings | RailweaveError] = []

    def caught() -> None:
        try:
            results.append(call())
        except RailweaveError as error:
            results.append(error)

    second = Thread(target=caught, daemon=True)
    second.start()
    caught()
    second.join()
    for result in results:
        if isinstance(result, RailweaveError):
            raise result
    return [result for result in results if isinstance(result, Findings)]


def task(message: Mapping[str, Any], emit: Callable[[RunEvent], None]) -> Findings:
    """Hold the fabric of `message["document"]` under the load `message["hold"]` for `message["seconds"]`."""
    with lab_task(message, emit) as session:
        keep(session, message["hold"], message["seconds"])
        return session.findings()


def keep(session: LabSession, hold: str, seconds: float) -> None:
    """Iterations begin, or TCP goes on, until the time is over; after a fault it begins with the end of the
    plan's iterations."""
    session.start()
    if hold == AFTER:
        session.iterate()
    end = session.engine.clock.now_s() + seconds
    iteration = 0
    with _tcp(session) if hold == TCP else _nothing():
        while session.engine.clock.now_s() < end:
            if hold in (LOAD, *ONCE):
                session.iterate_once(iteration, session.plan.schedule)
                iteration += 1
            else:
                session.step(end)


@contextmanager
def _nothing() -> Iterator[None]:
    yield


@contextmanager
def _tcp(session: LabSession) -> Iterator[None]:
    """Flows between all `neighbours` during the block."""
    address_hosts(session.engine.lab)
    ends = session.parts.endpoints
    flows = TcpFlows([(ends[src], ends[dst]) for src, dst in FLOWS * neighbours(session.plan.fabric)])
    session.engine.watch.readable(flows.channel, flows.hear)
    try:
        yield
    finally:
        session.engine.watch.forget(flows.channel)
        flows.stop()


def neighbours(fabric: Fabric) -> list[tuple[int, int]]:
    """Pairs of GPUs, (src, dst): every GPU with the next and the previous one along each axis, and on fabrics
    with rails with those of the next and the previous domain on its own rail. Their shortest paths use every
    link between switches but those within domains."""
    axes = 1 if fabric.group("rail") else fabric.gpu_coordinates.shape[1]
    at = {tuple(place): gpu for gpu, place in enumerate(fabric.gpu_coordinates.tolist())}
    shape = fabric.gpu_coordinates.max(axis=0) + 1
    pairs = set()
    for place, gpu in at.items():
        for axis in range(axes):
            for step in (1, -1):
                neighbour = list(place)
                neighbour[axis] = (neighbour[axis] + step) % int(shape[axis])
                pairs.add((gpu, at[tuple(neighbour)]))
    return sorted((src, dst) for src, dst in pairs if src != dst)


def fullness(plan: Plan, findings: Findings) -> float:
    """What the least busy link on the paths of `neighbours` carried, as a share of its rate."""
    src, dst = np.array(neighbours(plan.fabric)).T
    name, options = plan.experiment.router.name, plan.experiment.health
    used = np.unique(
        np.concatenate([p.links for p in first_routes(plan.fabric, plan.router, name, options, (src, dst))])
    )
    rates_bps = plan.fabric.capacity_bps[used] * findings.rate_scale
    sent_bits = 8 * findings.links.sent_bytes[used]
    return float((sent_bits / rates_bps).min() / findings.samples.t_s[-1])
