"""Whether health holds in every regime: detection, truth and benefit over fabrics, sizes, faults and routers.

Nearly every case with a fault is three runs at one rate scale: with feedback, without it, and with the truth
in place of measured scores.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import asdict, replace
from math import inf
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from railweave.bench.health_holds import IDLE, TCP, fullness, hold_cases, kept
from railweave.bench.health_rows import Case, Row, judged, ratio
from railweave.bench.row_file import RowFile
from railweave.framework.errors import HealthError, RouteError, RunFailedError
from railweave.framework.experiment.modes import MODES
from railweave.framework.experiment.plan import Plan, load_plan
from railweave.framework.judging.detection import ALLOWED_S, Judged, own_links
from railweave.framework.judging.fault_figures import fault_figures
from railweave.framework.judging.rows import ended_by
from railweave.framework.judging.run_result import run_result
from railweave.framework.model import HealthSnapshot
from railweave.framework.model.findings import Findings
from railweave.framework.model.health import EQUAL_WITHIN
from railweave.framework.registry import Registers
from railweave.framework.results.directory import RunDirectory
from railweave.framework.results.result import RunResult

Progress = Callable[[str], None]

RAIL_ONLY: dict[str, dict[str, object]] = {
    f"{domains}x{rails}": {"topology": "rail-only", "topology.domains": domains, "topology.rails": rails}
    for domains, rails in ((4, 4), (8, 4), (8, 8))
}
OTHERS: dict[str, dict[str, object]] = {
    "rail-optimised": {"topology": "rail-optimised"},
    "torus": {"topology": "torus", "topology.shape": "4x4"},
}
FABRICS = {**RAIL_ONLY, **OTHERS}
LONG = ("4M", "16M")
"""Sizes with few iterations for comparison and one fault: one of 64 GPUs takes up to minutes."""
SIZES = {"64K": 24, "256K": 18, "1M": 16, "4M": 12, "16M": 3}
"""Iterations with feedback at each: ten begin after the answer, except at 16 MiB."""
HEALTHY = {"64K": 10, "256K": 10, "1M": 10, "4M": 5, "16M": 3}
"""Iterations without a fault."""
HEALTHY_FIRST = 3
"""Iterations with feedback before the fault; one at LONG sizes, none in runs for comparison."""
LAST = 10
"""Iterations after the answer that count."""
COMPARED = {"no-feedback": 3, "oracle": 6}
COMPARED_LONG = {"no-feedback": 1, "oracle": 2}
"""Iterations in runs for comparison, which are alike and all have the fault; with the truth the first of them
does not count, as new rules come while it is under way. With faults of UNLIKE they are not alike, and these
runs are as long as those with feedback."""
UNLIKE = ("loss", "corrupt", "flap")
"""What meets each iteration anew, by chance or at another moment."""
RESTORED, RESTORED_OF = 9, 14
"""The iteration before which a fault is undone, and how many there are then."""

RAIL = ["degrade rail:1 to=20%", "degrade rail:1 to=60%"]
LINK, BACK, NIC = "link:g0.1->r1", "link:r1->g0.1", "nic:0.1"
"""The two directions of one rail cable, and both of them."""
LOSSES = {"rail:1": "3%", "domain:1": "3%", LINK: "20%"}
ONE_CABLE = ("degrade {} to=20%", "degrade {} to=50%", "loss {} rate=20%")
FAULTS = [
    *(f"degrade {what} to={to}%" for what in LOSSES for to in (20, 50, 60, 80)),
    f"{RAIL[0]} way=out",
    *(f"{verb} {what} rate={rate}" for verb in ("loss", "corrupt") for what, rate in LOSSES.items()),
    *(f"{verb} {what} rate=5%" for verb in ("reorder", "duplicate") for what in LOSSES),
    *(f"flap {what} period=1s times=60" for what in LOSSES),
    *(deed.format(what) for what in (BACK, NIC) for deed in ONE_CABLE),
]
"""Every verb after which a run without feedback completes, on a rail, a domain and a link; flaps go on until
the run ends. After `down` one fails. Of the same cable, the other direction and both at once."""
ELSEWHERE = (
    *(f"framework/{room}" for room in ("api", "bench", "cli", "kit", "page", "studies")),
    *(f"plugins/{other}" for other in ("fluid", "ilp", "optree", "packet", "wfr")),
)
"""What no row depends on, so that rows stay those of one version when it changes."""
OTHER_FAULTS = {
    "rail-optimised": [RAIL[0], f"degrade {LINK} to=20%", "loss rail:1 rate=3%"],
    "torus": ["degrade link:g0.0->g1.0 to=20%", "degrade link:g0.0->g1.0 to=50%",
              "loss link:g0.0->g1.0 rate=20%"],
}  # fmt: skip
RESTORED_FAULTS = [
    *((fabric, RAIL[0]) for fabric in ("rail-optimised", *RAIL_ONLY)),
    ("4x4", "loss rail:1 rate=20%"),
]


def cases(quick: bool) -> list[Case]:
    """What is measured, in this order: the holds; the fabrics that are not rail-only at 1 MiB; all
    faults and both routers at 1 MiB on the smallest; a slow rail at all other sizes on rail-only ones. Of
    each fabric with rails, a fault that is undone."""
    if quick:
        return [
            Case("4x4", "64K", RAIL[0], "hscore", 30),
            Case("4x4", "1M", RAIL[0], "hscore", 10),
            Case("4x4", hold=IDLE, hold_s=10.0),
            Case("4x4", hold=TCP, hold_s=10.0),
        ]
    return [
        *hold_cases(FABRICS, RAIL[0], SIZES["1M"]),
        *(Case(fabric, "1M", fault, "", _iterations("1M", fault)) for fabric, faults in OTHER_FAULTS.items()
          for fault in ("", *faults)),
        *(Case(fabric, "1M", fault, "", RESTORED_OF, restored=RESTORED) for fabric, fault in RESTORED_FAULTS),
        *(Case("4x4", "1M", fault, router, _iterations("1M", fault)) for router in ("hscore", "spray")
          for fault in ("", *FAULTS)),
        *(Case(fabric, size, fault, "hscore", _iterations(size, fault)) for fabric in RAIL_ONLY
          for size in SIZES if (fabric, size) != ("4x4", "1M")
          for fault in ("", *(RAIL if size == "1M" or (fabric == "4x4" and size not in LONG) else RAIL[:1]))),
    ]  # fmt: skip


def _iterations(size: str, fault: str) -> int:
    return (SIZES if fault else HEALTHY)[size]


def health(registers: Registers, quick: bool, resume: str, progress: Progress) -> dict[str, Any]:
    """A row per case (Row). `resume`: a file of rows, as JSON lines, that measured ones are added to and that
    those already there are taken from; none where empty. A case whose run fails has that as its verdict, and
    is measured again when resumed.
    """
    todo, rows = cases(quick), list[Row]()
    with ExitStack() as stack:
        file = stack.enter_context(RowFile(Path(resume), Row, "bench health", ELSEWHERE)) if resume else None
        kept_rows = {row.case: row for row in file.rows} if file else {}
        for number, case in enumerate(todo, 1):
            row = kept_rows.get(case)
            if row is None or row.verdict.startswith(FAILED):
                progress(f"{number}/{len(todo)} {case.name}")
                row = _measured(case, registers)
                if file:
                    file.add(row)
            progress(f"{number}/{len(todo)} {case.name}: {row.verdict}")
            rows.append(row)
    return {
        "rows": [asdict(row) for row in rows],
        "cases": len(rows),
        "as_they_should_be": sum(row.verdict == "ok" for row in rows),
    }


FAILED = "failed: "


def _measured(case: Case, registers: Registers) -> Row:
    """The row of a case. Unless it is ok, each of its runs leaves a directory under runs/."""
    row, seen = Row(**asdict(case)), list[tuple[Plan, Findings, RunResult | None]]()
    try:
        if case.hold:
            plan = load_plan(None, _keys(case), registers)
            labs = kept(plan, case.hold, case.hold_s)
            seen += ((plan, findings, None) for findings in labs)
            row = held(row, plan, labs)
        else:
            runs = list(_runs(case, registers))
            seen += runs
            row = compared(row, runs)
        row = judged(row)
    except (RunFailedError, HealthError, RouteError) as error:  # others would meet every case
        row = replace(row, verdict=f"{FAILED}{error}")
    if row.verdict != "ok":
        for run in seen:
            _leave(case, *run)
    return row


def _leave(case: Case, plan: Plan, findings: Findings, result: RunResult | None) -> None:
    directory = RunDirectory.create(None, re.sub(r"[^\w.]+", "-", f"bench-health {case.name}").strip("-"))
    directory.write_text("experiment.yaml", plan.yaml())
    directory.write_arrays("health.npz", vars(findings.samples))
    if result is not None:
        directory.write_result(result)


def held(row: Row, plan: Plan, labs: list[Findings]) -> Row:
    """The figures of a hold; of two labs the lower scores, and the reroutes of both."""
    if row.fault:
        (fault,), _ = fault_figures(plan, labs[0])
        row = replace(row, published_s=fault.published_s, allowance_s=fault.allowance_s)
    rows = [_scored(row, plan, findings) for findings in labs]
    return replace(
        min(rows, key=lambda row: row.healthy_min or 0.0),
        reroutes=sum(len(findings.reroutes) for findings in labs),
        fullness=round(fullness(plan, labs[0]), 3) if row.hold == TCP else None,
    )


def _keys(case: Case, mode: str = "feedback") -> dict[str, object]:
    """The experiment of a case."""
    first, iterations = _first(case, mode), case.iterations
    if _short(case, mode):
        after = COMPARED_LONG if case.size in LONG else COMPARED
        iterations = min(iterations, after[mode])
    keys = {"size": case.size, "router": case.router, "iterations": iterations}
    faults = [f"at=iter:{first} {case.fault}"] if case.fault else []
    if case.restored:
        faults.append(f"at=iter:{case.restored} restore {case.fault.split()[1]}")
    return {
        **FABRICS[case.fabric],
        **{name: value for name, value in keys.items() if value},
        **MODES[mode],
        "faults": faults,
    }


def _short(case: Case, mode: str) -> bool:
    """Whether a run has only the iterations that a comparison takes."""
    return mode != "feedback" and not case.fault.startswith(UNLIKE)


def _first(case: Case, mode: str) -> int:
    """Iterations before the fault."""
    if _short(case, mode):
        return 0
    return 1 if case.size in LONG else HEALTHY_FIRST


Run = tuple[Plan, Findings, RunResult]


def _runs(case: Case, registers: Registers) -> Iterator[Run]:
    """With feedback, and where they are compared, without it and with the truth; at one rate scale."""
    scale: float | None = None
    for mode in MODES if case.compared else ["feedback"]:
        plan = load_plan(None, _keys(case, mode), registers)
        plan = plan if scale is None else plan.at_scale(scale)
        findings = plan.engine.run(plan, registers, lambda _: None)
        scale = findings.rate_scale
        yield plan, findings, run_result(plan, findings, 0.0, lambda _: None)


def compared(row: Row, runs: list[Run]) -> Row:
    """The figures of a case from its runs: with feedback, without it, with the truth."""
    (plan, findings, result), *others = runs
    fault = result.faults[0] if result.faults else None
    if result.wrong:
        raise RunFailedError(f"{result.wrong} elements came out wrong.")
    ours, *theirs = (_after(other) for _, _, other in runs)
    alone, oracle = theirs if others else ([], [])
    fault_s = inf if fault is None or fault.t_s is None else fault.t_s
    healthy = [
        x.declared_time_us for x in result.rows
        if x.iteration is not None and ended_by(x, fault_s)
    ]  # fmt: skip
    if fault is not None:
        published_s, answered_s = fault.published_s, fault.recovered_s
        row = replace(
            row, detected_s=fault.detected_s, published_s=published_s, allowance_s=fault.allowance_s,
            answered_s=answered_s, back_s=result.faults[1].recovered_s if row.restored else None,
            rules_s=None if published_s is None or answered_s is None else answered_s - published_s,
        )  # fmt: skip
    return replace(
        _scored(row, plan, findings),
        reroutes=len(result.reroutes),
        healthy_us=_median(healthy),
        faulted_us=_median(ours),
        alone_us=_median(alone),
        oracle_us=_median(oracle),
        to_alone=ratio(ours, alone),
        to_oracle=ratio(ours, oracle),
        fidelity=result.fidelity.verdict,
        reasons="; ".join(result.fidelity.reasons),
    )


def _after(result: RunResult) -> list[float]:
    """Declared times of the first ten iterations that began after the answer to the fault, or after the fault
    where nothing answered it, and before its repair; none without a fault."""
    fault = result.faults[0] if result.faults else None
    if fault is None or fault.t_s is None:
        return []
    since = fault.t_s + (fault.recovered_s or 0.0)
    until = min((repair.t_s or inf for repair in result.faults if repair.verb == "restore"), default=inf)
    return [
        row.declared_time_us for row in result.rows if row.iteration is not None and since <= row.t_s < until
    ][:LAST]


def _scored(row: Row, plan: Plan, findings: Findings) -> Row:
    """The row with the score and the truth of what the fault hit most, at the end, unless it had only just
    come or gone, of a link where a fault is done to some of a switch; and the lowest score that was published
    of anything that no fault hit."""
    fabric, samples, margin = plan.fabric, findings.samples, plan.experiment.health.margin
    true = [HealthSnapshot.healthy(fabric), *findings.truth]
    lowest, views = 1.0, {}
    for by_links in (False, True):
        judged = Judged(fabric, margin, links=by_links)
        truths = np.array([judged.of(t.link_score, t.element_score) for t in true])
        published = judged.of(samples.link_score, samples.element_score)
        worst = truths.min(axis=0)
        lowest = min(lowest, float(published[:, worst >= 1 - EQUAL_WITHIN].min(initial=1.0)))
        views[by_links] = worst, truths[-1], published
    row = replace(row, healthy_min=round(lowest, 6))
    worst, truth, published = views[any(own_links(fabric, fault.links, fault.node) for fault in plan.faults)]
    just_now = len(published) and samples.t_s[-1] - true[-1].t_s < ALLOWED_S
    if worst.min() >= 1 - EQUAL_WITHIN or not len(published) or just_now:
        return row
    hit = np.lexsort((published[-1], worst))[0]
    return replace(row, score=round(float(published[-1, hit]), 6), truth=float(truth[hit]))


def _median(times: list[float]) -> float | None:
    return median(times) if times else None
