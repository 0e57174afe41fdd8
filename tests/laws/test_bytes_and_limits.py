"""Links carry what the schedule sends over them, and nothing is faster than links allow."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tests.laws.blocks import Block, Case, Drawing
from tests.laws.experiments import (
    chance,
    fabric_of,
    pick,
    routers_for,
    some_collective,
    some_faults,
    some_topology,
)
from tests.laws.runs import Outcome

SHARES = {"links_carry_what_is_sent": 14, "nothing_beats_the_limit": 12}
WITHIN = 1e-9
ITERATIONS = 4


def drawn_healthy(drawing: Drawing) -> Case | None:
    draw = drawing.draw
    topology = some_topology(draw)
    fabric = fabric_of(topology)
    if not (routers := routers_for(fabric, drawing.router)):
        return None
    return Case(
        {
            "topology": topology,
            "router": pick(draw, routers),
            **some_collective(draw, fabric),
            "iterations": 2,
        }
    )


def drawn_with_faults(drawing: Drawing) -> Case | None:
    draw = drawing.draw
    if (case := drawn_healthy(drawing)) is None:
        return None
    document = {**case.document, "iterations": ITERATIONS, "oracle": chance(draw, 0.3)}
    document["size"] += 4 * int(draw.integers(0, 5000))
    if chance(draw, 0.6):
        document["faults"] = some_faults(draw, fabric_of(document["topology"]), ITERATIONS)
    return Case(document)


def judge_bytes(case: Case, outcomes: Sequence[Outcome]) -> str | None:
    """Wire bytes of every transfer, listed one by one, on the links of its pair's paths."""
    plan, findings = outcomes[0].plan, outcomes[0].found
    listed = plan.on_gpus(plan.schedule).expand()
    sends = listed.is_transfer
    src, dst = listed.src[sends].astype(np.int64), listed.dst[sends].astype(np.int64)
    wire = plan.packet.wire_bytes_of(listed.size[sends]) * plan.experiment.iterations
    paths = plan.router.routes(plan.fabric, outcomes[0].healthy).paths(src, dst)
    share = (wire[paths.path_pair] * paths.weight)[paths.hop_path]
    expected = np.bincount(paths.links, share, plan.fabric.n_links)
    sent = findings.links.sent_bytes
    wrong = np.abs(sent - expected) > WITHIN * np.maximum(expected.max(), 1)
    if not wrong.any():
        return None
    link = int(np.argmax(np.abs(sent - expected)))
    return (
        f"{plan.fabric.link_name(link)} carried {sent[link]:.1f} bytes, and {expected[link]:.1f} go over it"
    )


def judge_limit(case: Case, outcomes: Sequence[Outcome]) -> str | None:
    if outcomes[0].findings is None:
        return None
    for row in outcomes[0].result.rows:
        if row.ratio_to_bound is not None and row.ratio_to_bound > 1 + WITHIN:
            return f"iteration {row.iteration} takes {row.time_us:.6g} us; the limit is {row.bound_us:.6g} us"
    verdict = outcomes[0].result.fidelity
    return f"the verdict is {verdict}" if verdict.verdict == "invalid" else None


def test_links_carry_what_is_sent(block: Block) -> None:
    block.check(drawn_healthy, judge_bytes)


def test_nothing_beats_the_limit(block: Block) -> None:
    block.check(drawn_with_faults, judge_limit)
