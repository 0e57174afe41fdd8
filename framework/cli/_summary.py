"""The end of a run, in words: times, scores, reroutes, the verdict, and where it all lies."""

from collections.abc import Mapping
from pathlib import Path
from statistics import median

from railweave.framework.cli._context import table
from railweave.framework.parameters import units
from railweave.framework.results.figures import CircuitFigures, FaultFigures, Group
from railweave.framework.results.result import RunResult

SHOWN_REROUTES = 8
SHOWN_SCORES = 16
"""The largest reroutes, and scores of one kind of element, that are listed; the others are counted."""


def report(result: RunResult, directory: Path | None = None) -> str:
    """Everything below the nccl-tests table, ending in a newline. Times are emulated."""
    lines = [
        *(_of_jobs(result) if result.jobs else _of_one(result)),
        *_scores(result),
        *_happened(result),
        *_rules(result),
        *(_line("pauses", str(row.pause_figures)) for row in result.summaries if row.pause_figures),
        *([_line("compared", f"{result.compared} elements, {result.wrong} wrong")] * bool(result.compared)),
        _line("fidelity", result.fidelity.verdict),
        *(_line("", f"- {reason}") for reason in result.fidelity.reasons),
        _line("took", _timing(result)),
        *([_line("written to", str(directory))] * (directory is not None)),
    ]
    return "\n".join(lines) + "\n"


def _rules(result: RunResult) -> list[str]:
    """Those of the first routes; none where nothing needs rules."""
    made = result.controller
    return [_line("rules", f"{made.rules} by {made.name} in {made.install_s:.2f} s")] * bool(made.rules)


def _of_one(result: RunResult) -> list[str]:
    return [
        *_predicted(result),
        *_iterations(result),
        *_packets(result),
        *_computing(result),
        *_limits(result),
        *_bottleneck(result),
    ]


def _predicted(result: RunResult) -> list[str]:
    """Every iteration next to its prediction, if there is one."""
    cells = [
        (row.iteration, declared_time(row.time_us), declared_time(row.predicted_us),
         f"{100 * (row.time_us / row.predicted_us - 1):+.1f} %")
        for row in result.rows
        if row.iteration is not None and row.predicted_us is not None
    ]  # fmt: skip
    return [table(("iteration", "measured", "predicted", "apart"), cells), ""] if cells else []


def _of_jobs(result: RunResult) -> list[str]:
    """Each job, and what they did to each other."""
    lines = []
    for job in result.jobs:
        if (job_result := result.of_job(job.job)).rows:
            lines += [f"job {job.name}, {job.fidelity.verdict}", *_of_one(job_result), ""]
    cells = [
        (job.name, len(job.ranks), *(declared_time(us) for us in (job.alone_us, job.together_us)),
         "-" if job.interference is None else f"{job.interference:.2f}",
         "failed" if job.error else job.fidelity.verdict)
        for job in result.jobs
    ]  # fmt: skip
    lines += [table(("job", "ranks", "alone", "together", "interference", "verdict"), cells), ""]
    elements = sorted({name for job in result.jobs for name in job.element_bytes or ()}, key=_natural)
    loads = [
        (name, *("-" if job.element_bytes is None else f"{job.element_bytes.get(name, 0) / 1e6:.3g} MB"
                 for job in result.jobs))
        for name in elements[:SHOWN_SCORES]
    ]  # fmt: skip
    if loads:
        rest = [f"and {len(elements) - len(loads)} more"] if len(loads) < len(elements) else []
        lines += [table(("data on", *(job.name for job in result.jobs)), loads), *rest, ""]
    if result.fairness is not None:
        lines.append(_line("fairness", f"{result.fairness:.3f} (Jain's index of together relative to alone)"))
    return lines


def declared_time(us: float | None) -> str:
    return "-" if us is None else units.time(us * 1e-6)


def _natural(name: str) -> tuple[str, list[int]]:
    """`rail:10` behind `rail:9`."""
    kind, _, numbers = name.partition(":")
    return kind, [int(part) for part in numbers.split(".") if part.isdecimal()]


def _line(name: str, text: str) -> str:
    return f"{name:<11} {text}"


def _iterations(result: RunResult) -> list[str]:
    before, during, after = result.iterations.before, result.iterations.during, result.iterations.after
    faulty = bool(during.iterations or after.iterations)
    return [
        _line(label if faulty else "iterations", _times(group, result.fabric.rate_scale))
        for label, group in (("before fault", before), ("in fault", during), ("after fault", after))
        if group.iterations and group.median_us is not None
    ]


def _times(group: Group, scale: float) -> str:
    """Declared time and busbw first: the run's clock depends on the rate scale."""
    assert group.median_us is not None and group.min_us is not None and group.max_us is not None
    n = len(group.iterations)

    def declared(us: float) -> str:
        return units.time(us * scale * 1e-6)

    figures = [f"{declared(group.median_us)} declared"]
    if group.busbw_gbs is not None:
        figures.append(f"busbw {group.busbw_gbs:.2f} GB/s")
    if group.ratio is not None:
        figures.append(f"{group.ratio:.2f} times the healthy time")
    basis = f"iteration {group.iterations[0]}"
    if n > 1:
        basis = f"median of {n}, {declared(group.min_us)} to {declared(group.max_us)}"
    return f"{', '.join(figures)} ({basis}; {units.time(group.median_us * 1e-6)} on the run's clock)"


def _limits(result: RunResult) -> list[str]:
    if len(result.summaries) > 1:  # the table has it by size
        return []
    healthy = [row for row in result.rows if row.iteration in result.iterations.before.iterations]
    ratios = {
        "the physical limit": [row.ratio_to_bound for row in healthy if row.ratio_to_bound is not None],
        "the algorithm's closed form": [r.ratio_to_model for r in healthy if r.ratio_to_model is not None],
    }
    parts = [f"{median(values):.2f} of {limit}" for limit, values in ratios.items() if values]
    return [_line("healthy", ", ".join(parts))] if parts else []


def _packets(result: RunResult) -> list[str]:
    """What packets would add to the times of flows, to which of the iterations least and most."""
    shares = [
        row.packet_delay_us / row.time_us
        for row in result.rows
        if row.iteration is not None and row.packet_delay_us is not None and row.time_us
    ]
    if not shares:
        return []
    least, most = (f"{100 * share:.1f}" for share in (min(shares), max(shares)))
    ends = most if least == most else f"{least} to {most}"
    return [_line("packets", f"stored and forwarded, would add {ends} % (docs/fidelity.md)")]


def _computing(result: RunResult) -> list[str]:
    """How much of the time is computation, where the schedule has any."""
    rows = [row for row in result.rows if row.compute_us is not None and row.time_us]
    shares = [(row.compute_us or 0.0) / row.time_us for row in rows]
    if not shares:
        return []
    share = median(shares)
    return [_line("time", f"{share:.0%} computations, {1 - share:.0%} traffic that nothing else hides")]


def _bottleneck(result: RunResult) -> list[str]:
    """What held the slowest iteration, and all together; or that there is none."""
    if not result.bottlenecks:
        return []
    *iterations, overall = result.bottlenecks
    times = {row.iteration: row.time_us for row in result.rows}
    slowest = max(iterations, key=lambda bottleneck: (not bottleneck.balanced, times[bottleneck.iteration]))
    if slowest.balanced:
        return [_line("bottleneck", "none: no element was measured slow or carried more than its like")]
    name, of_all = slowest.name, overall.name
    overall_share = f", {100 * overall.share:.0f} % of all" if of_all == name and len(iterations) > 1 else ""
    share = f"{100 * slowest.share:.0f} %"
    lines = [_line("bottleneck", f"{name} held {share} of iteration {slowest.iteration}{overall_share}")]
    if slowest.spared:
        ways = "an equal way" if slowest.spared == 1 else f"{slowest.spared} equal ways"
        lines.append(_line("", f"{slowest.link} is part of it; {ways} carried nothing meanwhile"))
    return lines


def _scores(result: RunResult) -> list[str]:
    if not result.health:
        return []
    by_kind: dict[str, list[str]] = {}
    for name, score in result.health[-1].elements.items():
        kind, _, which = name.partition(":")
        by_kind.setdefault(kind, []).append(f"{which} {score:.2f}")
    lines = []
    for kind, scores in sorted(by_kind.items(), reverse=True):
        rest = [f"and {len(scores) - SHOWN_SCORES} more"] if len(scores) > SHOWN_SCORES else []
        lines.append(_line(f"h {kind}s", "  ".join(scores[:SHOWN_SCORES] + rest)))
    return lines + _links_alone(result)


def _links_alone(result: RunResult) -> list[str]:
    """The lowest scores of links where none of them makes up that of a switch."""
    if result.elements:
        return []
    low = sorted((link.h_score, link.name) for link in result.links if link.h_score < 1)
    rest = [f"and {len(low) - SHOWN_SCORES} more"] if len(low) > SHOWN_SCORES else []
    shown = [f"{name} {score:.2f}" for score, name in low[:SHOWN_SCORES]] + rest
    return [_line("h links", "  ".join(shown or ["all 1.00"]))]


def _happened(result: RunResult) -> list[str]:
    lines = []
    for fault in result.faults:
        when = f"{fault.t_s:.2f} s" if fault.t_s is not None else "never fired"
        text = f"{fault.verb} {fault.target}, {fault.links} links{_response(fault, result)}"
        lines.append(_line("fault", f"{when}: {text}"))
        if fault.circuits is not None and fault.t_s is not None:
            lines.append(_line("", _connected(fault.circuits)))
    largest = sorted(result.reroutes, key=lambda reroute: -reroute.pairs_changed)[:SHOWN_REROUTES]
    if len(largest) < len(result.reroutes):
        lines.append(_line("reroutes", f"{len(result.reroutes)}, the largest were:"))
    return lines + [
        _line("reroute", f"{reroute.t_s:.2f} s: {reroute.pairs_changed} pairs, because {reroute.why}")
        for reroute in sorted(largest, key=lambda reroute: reroute.t_s)
    ]


def _connected(made: CircuitFigures) -> str:
    """What circuits a fault connected, and how long they passed no light."""
    number = "1 circuit" if made.circuits == 1 else f"{made.circuits} circuits"
    dark = "no light came" if made.connected_s is None else f"dark for {made.connected_s:.2f} s"
    return f"{made.summary}; {number} on {made.switches} OCS, {dark} ({units.time(made.connect_s)} declared)"


def _response(fault: FaultFigures, result: RunResult) -> str:
    """When a fault showed in the scores and when new routes answered it; or that it never did."""
    oracle = result.experiment.get("oracle") is True
    if fault.t_s is None:
        return ""
    if fault.visible is False:
        return "; no true score left the margin"
    if fault.detected_s is None:
        return "; told (oracle), not answered" if oracle else "; never seen"

    def after(seconds: float) -> str:
        return f"after {seconds:.2f} s ({units.time(seconds * result.fabric.rate_scale)} declared)"

    answer = "not answered" if fault.recovered_s is None else f"answered {after(fault.recovered_s)}"
    health = result.experiment.get("health")
    if isinstance(health, Mapping) and (delay_s := float(health.get("control_delay", 0.0))):
        answer += f", with a control delay of {units.time(delay_s)}"
    return f"; told (oracle), {answer}" if oracle else f"; seen {after(fault.detected_s)}, {answer}"


def _timing(result: RunResult) -> str:
    timing = result.timing
    parts = [f"up {timing.bring_up_s:.1f} s", f"run {timing.run_s:.1f} s"]
    if timing.tear_down_s is not None:
        parts.append(f"down {timing.tear_down_s:.1f} s")
    if result.memory_peak_mb is not None:
        parts.append(f"{result.memory_peak_mb:.0f} MB at most")
    if result.cpu_s:
        parts.append("cpu " + ", ".join(f"{name} {seconds:.1f} s" for name, seconds in result.cpu_s.items()))
    return "; ".join(parts)
