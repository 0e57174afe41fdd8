"""What a run found of each of its faults: when it was seen, published and answered."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from railweave.framework.experiment.faults import ResolvedFault
from railweave.framework.experiment.plan import Plan
from railweave.framework.model import Fabric
from railweave.framework.model.findings import Findings, HealthSamples, RuleAgreement
from railweave.framework.results.detection import (
    Accuracy,
    Judged,
    Response,
    accuracy,
    allowance_s,
    published_s,
    response,
    truth_at,
)
from railweave.framework.results.result import FaultFigures


def fault_figures(plan: Plan, findings: Findings) -> tuple[tuple[FaultFigures, ...], Accuracy]:
    """Every fault with the times until it was seen and answered; and how well the scores matched the ground
    truth."""
    samples, judged = findings.samples, Judged(plan.fabric, plan.experiment.health.margin)
    published = judged.of(samples.link_score, samples.element_score)
    reported = judged.degraded(published)
    truth = [(t.t_s, judged.of(t.link_score, t.element_score)) for t in findings.truth]
    degraded = [(t_s, judged.degraded(scores)) for t_s, scores in truth]
    fired = {fault.text: fault.t_s for fault in reversed(findings.faults)}
    jobs = {fault.text: fault.job for fault in findings.faults}
    figures, states = [], pairwise([np.ones(len(judged.ids)), *(scores for _, scores in truth)])
    until = iter([*(t_s for t_s, _ in truth[1:]), np.inf])
    for fault in sorted(plan.faults, key=lambda fault: fired.get(fault.text, np.inf)):
        t_s, answer, when, scores = fired.get(fault.text), Response(False, None, None), None, {}
        allowed = None
        if t_s is not None and fault.process:
            answer = Response(True, *_process_times(findings.agreements, t_s))
        elif t_s is not None:
            before, after = next(states)
            visible = judged.degraded(before), judged.degraded(after)
            answer = response(judged, samples.t_s, reported, *visible, findings.reroutes, t_s)
            when = published_s(samples.t_s, published, before, after, t_s)
            before_s = next(until)
            scores = _link_scores(plan.fabric, fault, samples, before_s)
            if fault.verb == "degrade":
                waited = samples.waited_bytes[:, fault.links].sum(axis=1)
                allowed = allowance_s(samples.t_s, waited, plan.packet.full_packet_bytes, t_s, before_s)
        figures.append(
            FaultFigures(
                fault.text, fault.verb, fault.target, t_s, len(fault.links),
                answer.detected_s, answer.recovered_s, answer.visible, jobs.get(fault.text, 0), when, scores,
                allowed,
            )
        )  # fmt: skip
    return tuple(figures), accuracy(reported, truth_at(samples.t_s, degraded, len(judged.ids)))


def _link_scores(
    fabric: Fabric, fault: ResolvedFault, samples: HealthSamples, until_s: float
) -> dict[str, float]:
    """The scores of the links that a fault was done to, as last published before `until_s`."""
    if not (n := int(np.searchsorted(samples.t_s, until_s))):
        return {}
    last = samples.link_score[n - 1]
    return {fabric.link_name(link): round(float(last[link]), 6) for link in fault.links.tolist()}


def _process_times(agreements: Sequence[RuleAgreement], t_s: float) -> tuple[float | None, float | None]:
    """Seconds from `t_s` until the end of a process was seen, and until all rules were in place again."""
    lost = next((a.t_s for a in agreements if not a.agrees and a.t_s >= t_s), None)
    if lost is None:
        return None, None
    back = next((a.t_s for a in agreements if a.agrees and a.t_s >= lost), None)
    return lost - t_s, None if back is None else back - t_s
