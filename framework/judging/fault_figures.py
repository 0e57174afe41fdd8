"""What a run found of each of its faults: when it was seen, published and answered."""

from collections.abc import Sequence

import numpy as np

from railweave.framework.experiment.faults import ResolvedFault
from railweave.framework.experiment.plan import Plan
from railweave.framework.judging.detection import (
    Judged,
    Response,
    accuracy,
    allowance_s,
    own_links,
    published_s,
    response,
    truth_at,
)
from railweave.framework.model import Fabric
from railweave.framework.model.arrays import Int64
from railweave.framework.model.events import CircuitsConnected
from railweave.framework.model.findings import Findings, HealthSamples, RuleAgreement
from railweave.framework.results.figures import Accuracy, CircuitFigures, FaultFigures


def fault_figures(plan: Plan, findings: Findings) -> tuple[tuple[FaultFigures, ...], Accuracy]:
    """Every fault with the times until it was seen and answered; and how well the scores matched the ground
    truth."""
    samples, margin = findings.samples, plan.experiment.health.margin
    views = [_JudgedScores(Judged(plan.fabric, margin, links=links), findings) for links in (False, True)]
    fired = {fault.text: fault.t_s for fault in reversed(findings.faults)}
    jobs = {fault.text: fault.job for fault in findings.faults}
    figures, number = [], 0
    until = iter([*(truth.t_s for truth in findings.truth[1:]), np.inf])
    for fault in sorted(plan.faults, key=lambda fault: fired.get(fault.text, np.inf)):
        t_s, answer, when, scores = fired.get(fault.text), Response(False, None, None), None, {}
        allowed = None
        if t_s is not None and fault.process:
            answer = Response(True, *_process_times(findings.agreements, t_s))
        elif t_s is not None:
            by_links = own_links(plan.fabric, fault.links, fault.node)
            answer, when = views[by_links].found(number, fault.links if by_links else None, t_s)
            number, before_s = number + 1, next(until)
            scores = _link_scores(plan.fabric, fault, samples, before_s)
            if fault.verb == "degrade":
                waited = samples.waited_bytes[:, fault.links].sum(axis=1)
                allowed = allowance_s(samples.t_s, waited, plan.packet.full_packet_bytes, t_s, before_s)
        figures.append(
            FaultFigures(
                fault.text, fault.verb, fault.target, t_s, len(fault.links),
                answer.detected_s, answer.recovered_s, answer.visible, jobs.get(fault.text, 0), when, scores,
                allowed, _circuits(fault, findings.circuits),
            )
        )  # fmt: skip
    return tuple(figures), views[0].accuracy()


def _circuits(fault: ResolvedFault, connected: Sequence[CircuitsConnected]) -> CircuitFigures | None:
    """The circuits that a fault connected anew, if it does so."""
    if fault.circuits is None:
        return None
    took_s = (event.t_s - event.since_s for event in connected if event.fault == fault.text)
    made = fault.circuits
    return CircuitFigures(
        made.summary, len(made.dark) // 2, made.switches, made.connect_s, next(took_s, None)
    )


class _JudgedScores:
    """The scores of a run and their ground truth, of switches or of links."""

    def __init__(self, judged: Judged, findings: Findings) -> None:
        self._judged, self._times, self._reroutes = judged, findings.samples.t_s, findings.reroutes
        self._published = judged.of(findings.samples.link_score, findings.samples.element_score)
        self._reported = judged.degraded(self._published)
        self._since_s = [truth.t_s for truth in findings.truth]
        self._truth = [
            np.ones(len(judged.ids)),
            *(judged.of(t.link_score, t.element_score) for t in findings.truth),
        ]

    def found(self, number: int, links: Int64 | None, t_s: float) -> tuple[Response, float | None]:
        """How the fault with this number among those of links, at `t_s`, was seen and answered, and when its
        scores were published; judged by these `links` alone, or by all that it changed."""
        before, after = self._truth[number : number + 2]
        if links is not None:
            of_links = np.isin(self._judged.ids, links)
            before = np.where(of_links, before, after)
        visible = self._judged.degraded(before), self._judged.degraded(after)
        if links is not None:
            visible = np.where(of_links, visible[0], visible[1]), visible[1]
        answer = response(self._judged, self._times, self._reported, *visible, self._reroutes, t_s)
        return answer, published_s(self._times, self._published, before, after, t_s)

    def accuracy(self) -> Accuracy:
        """Of all that was reported."""
        degraded = [self._judged.degraded(scores) for scores in self._truth[1:]]
        changes = list(zip(self._since_s, degraded, strict=True))
        return accuracy(self._reported, truth_at(self._times, changes, len(self._judged.ids)))


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
