"""Laws that the engine `packet` keeps within some per cent, with windows that hold no sender up: packets that
meet in queues are served in an order, which flows do not have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import inf
from statistics import fmean

from tests.laws import test_cutting, test_never_worse, test_relabelling, test_slow_is_not_worse_than_cut
from tests.laws.blocks import Block, Case, Drawing, Judge
from tests.laws.experiments import QUIET, Document
from tests.laws.packets import IDEAL, on_packets
from tests.laws.runs import Outcome

SHARES = {
    "packets_renamed": 2,
    "packets_with_a_cable_cut": 2,
    "packets_slow_or_cut": 2,
    "packets_with_feedback": 2,
}
RENAMED, WITHIN = 0.02, 0.03
LOSSES = 5
"""Seeds of losses."""
HIDDEN: Document = {
    "topology": {"name": "rail-only", "domains": 5, "rails": 3},
    "router": "hscore",
    "collective": "ring-reduce-scatter",
    "size": 2050240,
    "iterations": 6,
    "faults": ["at=iter:1 loss rail:0 rate=2.68% way=in", "at=iter:1 loss nic:1.2 rate=43.64%"],
    "engine": IDEAL,
}
"""Pairs leave a rail that loses a little for one on which nothing was sent, so that nobody knows of a NIC
there that loses much."""
IN_TURNS: Document = {
    "topology": {"name": "ring", "nodes": 15},
    "router": "spray",
    "collective": {"name": "optree"},
    "size": 1966080,
    "iterations": 6,
    "faults": ["at=iter:1 loss link:g0->g1 rate=3.68%"],
    "engine": IDEAL,
}
"""Of the pairs of a stage most take turns, so that few of them wait for lost packets at once."""
LEAST_PACKETS = 32
"""Of a message: of fewer, the last ones are more than WITHIN of its time."""


def unless_in_turn(judge: Judge) -> Judge:
    """Against the law is what breaks it both where queues are first in, first out and where pairs take turns.
    Packets that are sent in step meet in the former, by chance of names and routes (a permutation that is
    sprayed over a ring of 12 takes 1.7 times as long as flows do); what that costs, another link may save."""

    def judged(case: Case, outcomes: Sequence[Outcome]) -> str | None:
        if (complaint := judge(case, outcomes)) is None:
            return None
        case = replace(case, document={**case.document, "engine": {**IDEAL, "queue": "fair"}})
        return complaint if judge(case, case.outcomes()) is not None else None

    return judged


def drawn_renamed(drawing: Drawing) -> Case | None:
    case = test_relabelling.drawn(drawing)
    if case is None:
        return None
    variants = case.variants
    if len(variants) == 2 and " loss " in "".join(variants[0]["faults"]):  # which packets is drawn
        variants = [{**keys, "seed": seed} for keys in variants for seed in range(test_cutting.SEEDS)]
    case = replace(case, document={**case.document, **QUIET}, variants=variants)
    return on_packets(case, IDEAL, LEAST_PACKETS)


def judge_names(case: Case, outcomes: Sequence[Outcome]) -> str | None:
    """The mean of each iteration under both names; over seeds, no further apart than these.
    Which of several equal detours is taken may differ, and which packets of a sprayed message a dead path
    takes, as that goes by the turns of paths."""
    half = len(outcomes) // 2
    if any(outcome.findings is None for outcome in outcomes):
        return None
    if half == 1 and not test_relabelling.same_detours(case, *outcomes):
        return None
    for i in range(test_relabelling.ITERATIONS):
        if half == 1 and any(outcome.found.iterations[i].result.retransmitted for outcome in outcomes):
            continue
        s = [outcome.declared_s()[i] for outcome in outcomes]
        one, other = fmean(s[:half]), fmean(s[half:])
        spread = max(s) - min(s) if half > 1 else 0.0
        if abs(other - one) > max(RENAMED * one, spread):
            return f"iteration {i} takes {other / one:.3f} times as long under other names"
    return None


def drawn_cut(drawing: Drawing) -> Case | None:
    return on_packets(test_cutting.drawn(drawing), IDEAL, LEAST_PACKETS)


def drawn_slow(drawing: Drawing) -> Case | None:
    case = test_slow_is_not_worse_than_cut.drawn(drawing)
    if case is not None and " loss " in "".join(case.variants[0]["faults"]):
        slow, cut = case.variants
        case = replace(case, variants=[*({**slow, "seed": seed} for seed in range(LOSSES)), cut])
    return on_packets(case, IDEAL, LEAST_PACKETS)


def judge_slow(case: Case, outcomes: Sequence[Outcome]) -> str | None:
    """Which packets are lost is drawn: what most seeds show."""
    *slow, cut = outcomes
    said = [test_slow_is_not_worse_than_cut.judge(case, (outcome, cut)) for outcome in slow]
    complaints = [complaint for complaint in said if complaint is not None]
    return complaints[0] if 2 * len(complaints) > len(slow) else None


def drawn_with_feedback(drawing: Drawing) -> Case | None:
    case = test_never_worse.drawn(drawing)
    if case is not None and " loss " in "".join(case.document["faults"]):
        seeds = range(test_cutting.SEEDS)
        case = replace(case, variants=[{**keys, "seed": seed} for keys in case.variants for seed in seeds])
    return on_packets(case, IDEAL, LEAST_PACKETS)


def judge_feedback(case: Case, outcomes: Sequence[Outcome]) -> str | None:
    """Which packets are lost is drawn: the means over seeds, no further apart than times without differ."""
    half, since = len(outcomes) // 2, case.notes["since"]
    seconds = [sum(outcome.seconds()[since:]) for outcome in outcomes]
    without_s, with_s = fmean(seconds[:half]), fmean(seconds[half:])
    spread_s = max(seconds[:half]) - min(seconds[:half]) if without_s < inf else 0.0
    if with_s <= max((1 + WITHIN) * without_s, without_s + spread_s):
        return None
    failed = next((outcome.failed for outcome in outcomes[half:] if outcome.failed), "")
    why = f"fails ({failed})" if with_s == inf else f"takes {with_s:.4g} s since the fault"
    return f"with {case.notes['mode']} the run {why}, without {without_s:.4g} s"


def test_packets_renamed(block: Block) -> None:
    block.check(drawn_renamed, unless_in_turn(judge_names))


def test_packets_with_a_cable_cut(block: Block) -> None:
    block.check(drawn_cut, unless_in_turn(test_cutting.judge))


def test_packets_slow_or_cut(block: Block) -> None:
    block.check(drawn_slow, unless_in_turn(judge_slow))


def test_packets_with_feedback(block: Block) -> None:
    block.check(drawn_with_feedback, test_never_worse.unless_once(unless_in_turn(judge_feedback)))


def test_pairs_go_back_from_a_rail_that_nobody_knew_anything_of() -> None:
    """As soon as it is known, and what it lost is sent again as soon as it is missed: resting there for the
    dwell time, an iteration took three times as long."""
    without, known = Case(HIDDEN, (QUIET, {})).outcomes()
    assert len(known.rerouted) > 1
    assert sum(known.seconds()[1:]) < sum(without.seconds()[1:])


def test_pairs_that_take_turns_do_not_wait_for_each_others_losses() -> None:
    """They did in what was predicted, 1,274 us for 840, so that pairs left for a detour of 1,198 us."""
    variants = [{**keys, "seed": seed} for keys in (QUIET, {}) for seed in range(3)]
    seconds = [sum(run.seconds()) for run in Case(IN_TURNS, variants).outcomes()]
    assert fmean(seconds[3:]) <= (1 + WITHIN) * fmean(seconds[:3])
