"""`railweave compare --engines` on many experiments: a line for each, as it is measured, and tables."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import click

from railweave.bench.engine_cases import JOBS, SCENARIOS, Case, cases, keys_of
from railweave.framework.cli._context import print_json, print_text, table
from railweave.framework.cli._engines import percent
from railweave.framework.judging.agreement import CLOSE, FAR, MOST_AGREE, Agreement, Stage
from railweave.framework.registry import Registers
from railweave.framework.studies.between_engines import Compared, EngineRuns, cases_on_engines
from railweave.framework.studies.computing import Row
from railweave.framework.studies.points import Point

Lines = Sequence[tuple[Case, Compared]]


def compare_cases(
    engines: Sequence[str],
    registers: Registers,
    changed: Mapping[str, object],
    directory: Path,
    *,
    quick: bool,
    repeat: int,
    as_json: bool,
) -> None:
    """Run all cases or the `quick` ones on the engines, `repeat` times, and print tables or JSON."""
    by_name = {case.name: case for case in cases(registers, quick)}
    experiments = {name: keys_of(case, registers) for name, case in by_name.items()}
    sweep = cases_on_engines(experiments, engines, changed, registers, repeat)
    runs = EngineRuns(sweep, engines, directory, registers)

    def begin(point: Point) -> None:
        number = [*by_name].index(name := str(point.settings["case"])) + 1
        which = f", run {point.repeat + 1} of {repeat}" if repeat > 1 else ""
        click.echo(f"{number}/{len(by_name)} {name} on {point.settings['engine']}{which}", err=True)

    def done(point: Point, row: Row) -> None:
        case = by_name[str(point.settings["case"])]
        if "cause" in row:
            click.echo(f"    {row['error']}", err=True)
        elif compared := runs.compared(case.name):
            for agreement in compared.agreements:
                click.echo(f"    {', '.join(_of_stages(case, agreement))}", err=True)

    try:
        runs.carry_out(begin, done)
    finally:  # an interrupted comparison shows what it has
        lines = [(case, line) for case in by_name.values() if (line := runs.compared(case.name))]
        if lines and as_json:
            print_json("compare-engines-many", rows=[_document(*line) for line in lines])
        elif lines:
            by_stage = repeat > 1 or len(engines) > 2
            print_text("\n".join(_by_stage(lines, engines) if by_stage else _by_case(lines)))


def _document(case: Case, compared: Compared) -> dict[str, Any]:
    figures = [{**asdict(agreement), "within": agreement.within} for agreement in compared.agreements]
    more = {"agreements": figures} if len(figures) > 1 else {}
    return {**asdict(case), "agreement": next(iter(figures), None), **more, "failed": compared.failed}


# -- a line for each fabric and router -------------------------------------------------------------------
def _of_stages(case: Case, agreement: Agreement) -> list[str]:
    """The differences of the stages; `!` behind those that are larger than they may be."""
    return [percent(s.difference) + "!" * (s.within is False) for s in _stages(case, agreement)]


def _stages(case: Case, agreement: Agreement) -> Sequence[Stage]:
    """Of two jobs, the one that differs most."""
    stages = agreement.stages
    if case.scenario != JOBS:
        return stages
    names = dict.fromkeys(stage.name.rpartition(" ")[2] for stage in stages)
    of_jobs = [[s for s in stages if s.name.endswith(f" {name}")] for name in names]
    return [max(some, key=lambda stage: abs(stage.difference or 0.0)) for some in of_jobs]


def _by_case(lines: Lines) -> list[str]:
    """Two engines: a line for each fabric and router, and one for each drawn scenario."""
    shown = []
    cells: dict[tuple[str, str], dict[str, str]] = {}
    for case, line in lines:
        if not case.drawn:
            of_pair = cells.setdefault((case.fabric, case.router), {})
            differences = "  ".join(word for a in line.agreements for word in _of_stages(case, a))
            of_pair[case.scenario] = "failed" if line.failed else differences + "  *" * line.doubtful
    if cells:
        body = [(*pair, *(of_pair.get(name, "") for name in SCENARIOS)) for pair, of_pair in cells.items()]
        shown += [table(("fabric", "router", *SCENARIOS), body)]
        shown.append(
            "before, iteration of the fault, after; of two jobs alone and together; ! more than allowed; "
            "* the verdict of a run is not pass"
        )
    return [*shown, *_choices(lines, 0), *_failed(lines)]


def _choices(lines: Lines, pair: int) -> list[str]:
    """Of drawn scenarios: where traffic went on the engines of a pair."""
    choices = [(case, line.agreements[pair]) for case, line in lines if case.drawn and not line.failed]
    if not choices:
        return []
    head = ("faults", *(f"on {name}" for name in choices[0][1].engines), "reroute s", "scores apart")
    body = [
        (case.scenario.replace("at=iter:", "").replace("degrade ", "").replace("to=", ""),
         *(name or "none" for name in agreement.chosen),
         " and ".join("-" if s is None else f"{s:.2f}" for s in agreement.reroute_s),
         f"{agreement.score_difference:.2f}")
        for case, agreement in choices
    ]  # fmt: skip
    same = sum(agreement.chosen[0] == agreement.chosen[1] for _, agreement in choices)
    return ["", table(head, body), f"the same choice in {same} of {len(choices)}"]


def _failed(lines: Lines) -> list[str]:
    return [f"{case.name}: {line.failed}" for case, line in lines if line.failed]


# -- a line for each stage -------------------------------------------------------------------------------
def _by_stage(lines: Lines, engines: Sequence[str]) -> list[str]:
    """Any engines and runs: a line for each stage of each case, and who agrees."""
    others = [word for name in engines[1:] for word in (f"{name} us", "apart")]
    body = []
    for case, line in lines:
        of_pairs = [{stage.name: stage for stage in agreement.stages} for agreement in line.agreements]
        for name in dict.fromkeys(name for of_pair in of_pairs for name in of_pair):
            stages = [of_pair.get(name) for of_pair in of_pairs]
            cells = [cell for stage in stages for cell in _cells(stage)]
            first_us = _us(stages[0].runs_us[0] if stages[0] else ())
            body.append((case.name + " *" * line.doubtful, name, first_us, *cells))
    shown = [table(("case", "stage", f"{engines[0]} us", *others), body)] if body else []
    shown.append(
        f"declared medians of runs, and lowest to highest; apart from the engine before, ! by more than "
        f"{CLOSE:.0%} and outside its runs; * the verdict of a run is not pass".replace("%", " %")
    )
    for at, (first, second) in enumerate(pairwise(engines)):
        pairs = [(case, line.agreements[at]) for case, line in lines if not line.failed]
        shown.append(f"{second}: {_agreeing([p for p in pairs if p[1].verdicts[0] == 'pass'], first)}")
        shown += _choices(lines, at)
    return [*shown, *_failed(lines)]


def _cells(stage: Stage | None) -> tuple[str, str]:
    """What the second engine of a pair took, and how far apart that is."""
    if stage is None:
        return "-", "-"
    return _us(stage.runs_us[1]), percent(stage.difference) + "!" * (stage.as_measured is False)


def _agreeing(pairs: Sequence[tuple[Case, Agreement]], first: str) -> str:
    """How many cases agree all in all, and who does not at all."""
    judged = [(case, stage) for case, a in pairs for stage in a.stages if stage.as_measured is not None]
    apart = {case.name for case, stage in judged if not stage.as_measured}
    far = [
        f"{case.name} {stage.name} {percent(stage.difference)}"
        for case, stage in judged
        if not stage.as_measured and abs(stage.difference or 0.0) > FAR
    ]
    stages = sum(bool(stage.as_measured) for _, stage in judged)
    text = (
        f"{len(pairs) - len(apart)} of {len(pairs)} cases that pass on {first} agree, {stages} of "
        f"{len(judged)} stages; {MOST_AGREE:.0%} of cases should".replace("%", " %")
    )
    return f"{text}; by more than {FAR:.0%} apart: ".replace("%", " %") + ", ".join(far) if far else text


def _us(runs: Sequence[float]) -> str:
    """`12.03 (11.97-12.10)`."""
    if not runs:
        return "-"
    return f"{median(runs):.4g}" + (f" ({min(runs):.4g}-{max(runs):.4g})" if len(runs) > 1 else "")
