"""The same experiment under other names takes the same time, and its scores change their names alone."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tests.laws.blocks import Block, Case, Drawing
from tests.laws.experiments import (
    ALL_KINDS,
    QUIET,
    chance,
    fabric_of,
    routers_for,
    some_collective,
    some_element,
    some_router,
    some_slowness,
    some_topology,
)
from tests.laws.relabelling import Relabelling, some_relabelling
from tests.laws.runs import Outcome
from tests.laws.test_cutting import SEEDS, hashes

SHARES = {"relabelling_changes_names_alone": 23}
WITHIN = 1e-9
ITERATIONS = 6
MOST_PATHS = 64
"""Of a pair by `spray`, which takes some of more in the order of their links."""
LOSSY_BYTES = 1 << 16
"""The least size of a run that loses packets: a message waits for what is lost as long as for 72 packets, so
that iterations of a few bytes take hundreds of times as long, and ten thousand samples."""


def drawn(drawing: Drawing) -> Case | None:
    draw = drawing.draw
    topology = some_topology(draw, (*["rail-only"] * 12, *["torus"] * 6, *ALL_KINDS))
    fabric = fabric_of(topology)
    if not (routers := routers_for(fabric, drawing.router)):
        return None
    router, traffic = some_router(draw, routers), some_collective(draw, fabric)
    if "ranks" in traffic or (hashes(router) and chance(draw, 0.8)):  # these take many runs
        return None
    axes, chunks = len(fabric.groups[0].shape), traffic["collective"].get("chunks", 1)
    each = 4 * 2 * axes * chunks * fabric.n_gpus  # slices of unequal size are dealt out by coordinates
    traffic["size"] = -(-traffic["size"] // each) * each
    relabelling = some_relabelling(draw, fabric, router, traffic["collective"]["name"])
    element = some_element(draw, fabric)
    if relabelling is None or element.startswith("ocs") or "#" in element:
        return None  # which of several wavelengths a pair has is by the lowest id
    document = {"topology": topology, "router": router, **traffic, "iterations": ITERATIONS}
    if hashes(router) or chance(draw, 0.4):
        document |= QUIET
    faults = [] if chance(draw, 0.2) else [f"at=iter:1 {some_slowness(draw, element)}"]
    if router != "shortest" and chance(draw, 0.3):
        faults = [f"at=iter:1 down {element}"]
    if any(" loss " in fault for fault in faults):
        document["size"] *= -(-LOSSY_BYTES // traffic["size"])
    renamed = [relabelling.fault(fault) for fault in faults]
    both = {"ranks": "all", "faults": faults}, {"ranks": relabelling.ranks(), "faults": renamed}
    notes = {"relabelling": relabelling}
    if hashes(router):
        seeds = [{"router": {"name": router, "seed": seed}} for seed in range(SEEDS)]
        return Case(document, [{**keys, **seed} for keys in both for seed in seeds], notes)
    return Case(document, both, notes)


def judge(case: Case, outcomes: Sequence[Outcome]) -> str | None:
    if len(outcomes) > 2:
        return _judge_hashes(outcomes)
    one, other = outcomes
    if one.findings is None or other.findings is None:
        return None if bool(one.failed) == bool(other.failed) else "under one of both names the run fails"
    if not same_detours(case, one, other):
        return None
    for i, (a, b) in enumerate(zip(one.declared_s(), other.declared_s(), strict=True)):
        if abs(b / a - 1) > WITHIN:
            return f"iteration {i} takes 1 + {b / a - 1:.3g} times as long under other names"
    faulted = {fault.split()[2] for fault in case.variants[0]["faults"]}
    relabelling = case.notes["relabelling"]
    return _judge_scores(relabelling, one, other) or _judge_bottlenecks(relabelling, faulted, one, other)


def same_detours(case: Case, one: Outcome, other: Outcome) -> bool:
    """Which of several equal detours is taken may differ, and so may what else goes over it: the one over
    another domain, say, is by the lowest id. So may which of more paths than a router takes. Hierarchical
    collectives order their rings by coordinates: other pairs send, and then what is down is left out."""
    relabelling: Relabelling = case.notes["relabelling"]
    if np.diff(one.paths[0].pair_start).max(initial=0) == MOST_PATHS:
        return False
    renamed = [relabelling.routes(paths, renamed=True) for paths in one.paths]
    routes = [relabelling.routes(paths, renamed=False) for paths in other.paths]
    if renamed[0] != routes[0]:
        return len(routes) == 1 or " down " not in "".join(case.variants[0]["faults"])
    return len(renamed) != len(routes) or renamed == routes


def _judge_hashes(outcomes: Sequence[Outcome]) -> str | None:
    """Means over the seeds, as far apart as single seeds at most."""
    if any(outcome.findings is None for outcome in outcomes):
        return None
    for i in range(ITERATIONS):
        s = [outcome.declared_s()[i] for outcome in outcomes]
        one, other = s[:SEEDS], s[SEEDS:]
        apart, spread = abs(sum(one) - sum(other)) / SEEDS, max(s) - min(s)
        if apart > max(spread, WITHIN * one[0]):
            return f"means of iteration {i} are {apart / one[0]:.3g} apart, seeds {spread / one[0]:.3g}"
    return None


def _judge_scores(relabelling: Relabelling, one: Outcome, other: Outcome) -> str | None:
    first, second = one.result, other.result
    if [fault.detected_s for fault in first.faults] != [fault.detected_s for fault in second.faults]:
        return (
            f"detected after {first.faults[0].detected_s} s, under other names {second.faults[0].detected_s}"
        )
    if len(first.health) != len(second.health):
        return f"scores are published {len(first.health)} times, under other names {len(second.health)}"
    for a, b in zip(first.health, second.health, strict=True):
        renamed = {relabelling.element(name): score for name, score in a.elements.items()}
        if renamed != b.elements:
            return f"scores at {a.t_s:.3f} s are {renamed}, under other names {dict(b.elements)}"
    return None


def _judge_bottlenecks(
    relabelling: Relabelling, faulted: set[str], one: Outcome, other: Outcome
) -> str | None:
    """Of what is alike and whole the first is named, by its old name or by its new one."""
    for a, b in zip(one.result.bottlenecks, other.result.bottlenecks, strict=True):
        before, after = (each.element or f"link:{each.link}" for each in (a, b))
        if before in faulted and not a.balanced and relabelling.element(before) != after:
            return f"{before} held {a.share:.0%} of iteration {a.iteration}, under other names {after}"
    return None


def test_relabelling_changes_names_alone(block: Block) -> None:
    block.check(drawn, judge)
