"""The checks of an engine: how long a transfer takes, what links carry, faults, and its end.

Expected times and bytes follow from the schedule, the first routes and the rates alone.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from railweave.framework.errors import RailweaveError, RunFailedError
from railweave.framework.experiment.plan import Plan
from railweave.framework.judging.fidelity import SLOWER
from railweave.framework.kit.check_report import Broken, Outcome, Violation
from railweave.framework.kit.engine_refusals import computes_flows, estimates, refusals
from railweave.framework.kit.engine_trials import Trial, held, loads
from railweave.framework.kit.subject import Sample, Subject
from railweave.framework.kit.trials import MOST_GPUS
from railweave.framework.model.capabilities import why_unserved
from railweave.framework.model.events import IterationEnded, RunEvent
from railweave.framework.model.findings import Findings
from railweave.framework.registry import Registers

PART = 0.5
"""Share of its rate, 0..1, that a link keeps which trials degrade."""
EARLY_PACKETS = 2
"""Packets that an engine with packets may send faster than at line rate: the first one finds its token bucket
full, and the bucket holds 50 us more (docs/architecture.md, "Honesty")."""
LATE = (1 + 1 / PART) / 2
"""How many times longer than it should a message of an engine with packets may take: a busy machine makes
packets late, and this is half of the way to what the slow link makes of it."""
MORE_BYTES = 1.1
"""How many times the bytes of the data all links of an engine with packets may carry: acknowledgements,
measuring trains, and what was sent again."""
ROUNDING = 1e-6
"""Relative error of sums of floats that is no finding."""
CUTS = ("down {link}", "loss {link} rate=100%", "corrupt {link} rate=100%", "kill switch:{switch}")
"""Faults after which a transfer over a link, or through a switch, cannot end."""


def check_time(plan: Plan, seconds: float, rate_scale: float, share: Mapping[int, float]) -> float:
    """`seconds` of a message relative to bytes over capacity. Raises Broken where links would have had to be
    faster, or where it is more than packets add: one at every link of the path, latencies, and what runs may
    differ by from their closed form (with packets: LATE). `share`: of the rates, of degraded links."""
    fabric, packet_bits = plan.fabric.scaled(rate_scale), 8.0 * plan.packet.full_packet_bytes
    rates = fabric.capacity_bps.copy()
    for link, part in share.items():
        rates[link] *= part
    bits = 8 * loads(plan)
    used = bits > 0
    line_s = float((bits / rates).max())
    early_s = float((packet_bits / rates[used]).max()) * EARLY_PACKETS if plan.engine.packets else 0.0
    slack = LATE if plan.engine.packets else SLOWER
    most_s = slack * (line_s + float((packet_bits / rates + fabric.latency_s)[used].sum()))
    if seconds < (line_s - early_s) * (1 - ROUNDING):
        raise Broken(f"a message takes {seconds:.4g} s, bytes over capacity are {line_s:.4g} s: too fast")
    if not seconds <= most_s:
        raise Broken(
            f"a message takes {seconds:.4g} s, bytes over capacity are {line_s:.4g} s; with a packet and the "
            f"latency of every link, and {slack - 1:.0%}, they are {most_s:.4g} s: too slow"
        )
    return seconds / line_s


def engine(
    subject: Subject, registers: Registers, samples: Sequence[Sample], *, lab: bool
) -> Iterator[Outcome]:
    """All checks in order. An engine that brings up labs runs only where `lab` asks for that, and on one
    fabric."""
    small = {s.fabric.kind: s for s in reversed(samples) if s.fabric.n_gpus <= MOST_GPUS}
    trials = [
        Trial(subject, registers, sample)
        for sample in reversed(small.values())
        if any(not why_unserved(router, sample.fabric) for router in registers["router"].values())
    ]
    if not trials:
        yield Outcome("refusals", "skipped", f"no fabric of {MOST_GPUS} GPUs or fewer that a router serves")
        return
    yield refusals(trials[0])
    yield estimates(trials[0])
    if has_labs := "lab" not in trials[0].engine.lacks:
        trials = trials[:1]
    if has_labs and not lab:
        yield Outcome("line rate", "skipped", "it brings up labs, and a lab is started with --lab alone")
        return
    yield from transfers(trials)
    yield cuts(trials[0], CUTS[:1] if has_labs else CUTS)
    yield interrupted(trials[0])
    if trials[0].engine.predicts:
        yield repeated(trials[0])


def transfers(trials: Sequence[Trial]) -> Iterator[Outcome]:
    """A message alone on each fabric, a collective of all ranks, and messages over a link that is slow for a
    while."""
    late, lost, ignored = list[Violation](), list[Violation](), list[Violation]()
    ratios, slowed = list[float](), [trial for trial in trials if not any(map(trial.lacks, _slow(trial)))]
    for trial in trials:
        name = trial.sample.name
        try:
            plan = trial.plan()
            findings = trial.run(plan)
            lost += _bytes(name, plan, findings)
            ratios.append(check_time(plan, _seconds(findings, 1)[0], findings.rate_scale, {}))
        except RailweaveError as error:
            late.append(Violation.of(name, error))
        try:
            plan = trial.plan(ranks="all", collective="ring-all-reduce")
            lost += _bytes(f"{name}, all ranks", plan, trial.run(plan))
        except RailweaveError as error:
            lost.append(Violation.of(f"{name}, all ranks", error))
    between = f"{min(ratios):.3f} to {max(ratios):.3f}" if ratios else ""
    yield Outcome.of("line rate", late, f"{between} of bytes over capacity on {len(trials)} fabrics")
    yield Outcome.of("bytes kept", lost, "every link carries those of the schedule, by the routes")
    for trial in slowed:
        ignored += _slow_link(trial)
    if slowed:
        yield Outcome.of("a slow link acts", ignored, f"at {PART:.0%} of its rate, and restored")
    else:
        yield Outcome("a slow link acts", "skipped", "it lacks degrade or restore")


def _seconds(findings: Findings, iterations: int) -> list[float]:
    if (count := len(findings.iterations)) != iterations:
        raise Broken(f"the findings have {count} iterations; the plan has {iterations}")
    return [record.result.seconds for record in findings.iterations]


def _slow(trial: Trial) -> tuple[str, str]:
    return f"degrade link:{trial.link_name} to={PART:.0%}", f"restore link:{trial.link_name}"


def _slow_link(trial: Trial) -> list[Violation]:
    """What is wrong with three iterations: healthy, with a link at a part of its rate, and restored."""
    faults = [f"at=iter:{i} {text}" for i, text in enumerate(_slow(trial), 1)]
    where, shares = trial.sample.name, ({trial.link: 1.0}, {trial.link: PART}, {trial.link: 1.0})
    try:
        plan = trial.plan(iterations=3, faults=faults)
        findings = trial.run(plan)
        if (injected := [fault.text for fault in findings.faults]) != faults:
            raise Broken(f"the findings have the faults {injected}; the plan has {faults}")
        for seconds, share, when in zip(_seconds(findings, 3), shares, ("", *faults), strict=True):
            where = f"{trial.sample.name}, {when}" if when else trial.sample.name
            check_time(plan, seconds, findings.rate_scale, share)
    except RailweaveError as error:
        return [Violation.of(where, error)]
    return []


def _bytes(name: str, plan: Plan, findings: Findings) -> list[Violation]:
    """What is wrong with the bytes of healthy iterations: links carry those of the schedule along its routes,
    all elements are right, and nothing is compared where there are no packets."""
    fabric, packets, wrong = plan.fabric, plan.engine.packets, list[Violation]()
    planned, sent = loads(plan), findings.links.sent_bytes
    expected = planned * len(findings.iterations)
    off = sent < expected * (1 - ROUNDING)
    exact = computes_flows(plan.engine)
    off |= exact & (sent > expected * (1 + ROUNDING))
    for link in np.flatnonzero(off)[:1].tolist():
        why = f"link {fabric.link_name(link)} sent {sent[link]:.0f} bytes, by the routes {expected[link]:.0f}"
        wrong.append(Violation(name, why))
    least = planned.sum() * (1 - ROUNDING)
    most = planned.sum() * (1 + ROUNDING if exact else MORE_BYTES)
    for record in findings.iterations:
        result, number = record.result, record.result.iteration
        if not least <= record.link_bytes <= most:
            why = f"links carry {record.link_bytes:.0f} bytes in iteration {number}, not {planned.sum():.0f}"
            wrong.append(Violation(name, why))
        if packets and (result.wrong or not result.compared):
            wrong.append(Violation(name, f"{result.wrong} of {result.compared} elements compared are wrong"))
        if not packets and result.wrong is not None:
            wrong.append(Violation(name, "it has no packets, and `wrong` is not None: nothing was compared"))
    return wrong


def cuts(trial: Trial, faults: Sequence[str]) -> Outcome:
    """A message whose path is cut does not arrive, and the run fails."""
    texts = [text.format(link=f"link:{trial.link_name}", switch=trial.switch) for text in faults]
    able, wrong = [text for text in texts if not trial.lacks(text)], list[Violation]()
    for text in able:
        where = f"{trial.sample.name}, at=iter:1 {text}"
        try:
            findings = trial.run(trial.plan(iterations=2, faults=[f"at=iter:1 {text}"]))
        except RunFailedError:
            continue
        except RailweaveError as error:
            wrong.append(Violation.of(where, error))
        else:
            seconds = findings.iterations[-1].result.seconds
            wrong.append(Violation(where, f"the message arrives all the same, in {seconds:.4g} s"))
    if not able:
        return Outcome("a cut path fails", "skipped", "it lacks every fault that cuts a path")
    return Outcome.of("a cut path fails", wrong, "; ".join(able))


def interrupted(trial: Trial) -> Outcome:
    """Ctrl-C ends a run: KeyboardInterrupt leaves `run`, and nothing that the run started is left."""
    ended = list[RunEvent]()

    def emit(event: RunEvent) -> None:
        if isinstance(event, IterationEnded):
            ended.append(event)
            raise KeyboardInterrupt

    check, why = "ends on Ctrl-C", ""
    try:
        plan = trial.plan(iterations=3)
        trial.run(plan)  # what is loaded once for all runs is not left by this one
        before = held()
        trial.run(plan, emit)
        why = "run() returns on Ctrl-C; KeyboardInterrupt must leave it"
        if not ended:
            why = "it emits no IterationEnded during the run, so that Ctrl-C could not be tried"
    except KeyboardInterrupt:
        if left := sorted(held() - before):
            why = f"Ctrl-C leaves {', '.join(left)}"
    except RailweaveError as error:
        why = str(error)
    wrong = [Violation(trial.sample.name, why)] if why else []
    return Outcome.of(check, wrong, "KeyboardInterrupt after the first iteration; nothing is left")


def repeated(trial: Trial) -> Outcome:
    """Equal plans give equal iterations, reroutes and bytes, also by a second instance; the plan stays."""
    slow = _slow(trial)[0]
    faults = [] if trial.lacks(slow) else [f"at=iter:1 {slow}"]
    keys: dict[str, Any] = {"iterations": 3, "feedback": True, "faults": faults}
    try:
        plan = trial.plan(**keys)
        before = plan.document()
        first, *others = [trial.run(equal_plan) for equal_plan in (plan, plan, trial.plan(**keys))]
        different = any(_computed(other) != _computed(first) for other in others)
        whys = ["run again, its iterations, reroutes or bytes differ"] * different
        whys += ["it changes the plan"] * (plan.document() != before)
    except RailweaveError as error:
        return Outcome.of("equal in, equal out", [Violation.of(trial.sample.name, error)], "")
    wrong = [Violation(trial.sample.name, why) for why in whys]
    return Outcome.of("equal in, equal out", wrong, "run again, and by a second instance")


def _computed(findings: Findings) -> tuple[object, ...]:
    return findings.iterations, findings.reroutes, findings.faults, findings.links
