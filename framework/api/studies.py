"""Comparisons and sweeps: one experiment under several settings."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

from railweave.framework.api.runs import Place, Source, installed, load, read, run
from railweave.framework.errors import RunFailedError
from railweave.framework.experiment.plan import Plan
from railweave.framework.judging.agreement import Agreement, CongestionFigures
from railweave.framework.model.events import RunEvent
from railweave.framework.registry import Registers
from railweave.framework.results.directory import RunDirectory
from railweave.framework.results.result import RunResult
from railweave.framework.studies.answers import Answer, words
from railweave.framework.studies.between_engines import engines_of, keys_by_engine, run_on_all
from railweave.framework.studies.bmwg import (
    DRAFT,
    NOT_EMULATED,
    QUICK,
    WHOLE,
    Procedure,
    ProcedureResult,
    study_of,
)
from railweave.framework.studies.bmwg import procedures as procedures_on
from railweave.framework.studies.carrying_out import ROWS, Tally, status
from railweave.framework.studies.chaos import campaign, scenarios
from railweave.framework.studies.comparison import Comparison, Variant, comparing, variant_of, variants_of
from railweave.framework.studies.comparison import compare as compare_results
from railweave.framework.studies.computing import Row, failures
from railweave.framework.studies.pictures import compared_picture
from railweave.framework.studies.points import Point
from railweave.framework.studies.shared_rails import (
    SHARES,
    SharedRails,
    compare_shares,
    jobs_sharing,
    sharing,
)
from railweave.framework.studies.spread import Spread
from railweave.framework.studies.sweep_file import Sweep
from railweave.framework.studies.sweeps import (
    Ahead,
    SweepResult,
    ahead,
    as_parquet,
    carried_out,
    found,
    has_rows,
)
from railweave.framework.studies.sweeps import sweep as swept
from railweave.framework.studies.what_if import FACTORS, WhatIf
from railweave.framework.studies.what_if import what_if as larger_runs

__all__ = [
    "DRAFT",
    "FACTORS",
    "ROWS",
    "SHARES",
    "Agreement",
    "Ahead",
    "Answer",
    "Comparison",
    "CongestionFigures",
    "Point",
    "Procedure",
    "ProcedureResult",
    "Row",
    "SharedRails",
    "Spread",
    "Sweep",
    "SweepResult",
    "Tally",
    "Variant",
    "WhatIf",
    "ahead",
    "as_parquet",
    "bmwg",
    "bmwg_procedures",
    "campaign",
    "compare",
    "compare_engines",
    "compare_jobs",
    "compare_results",
    "compare_shares",
    "compared_picture",
    "comparing",
    "engines_of",
    "found",
    "has_rows",
    "in_turn",
    "jobs_sharing",
    "keys_by_engine",
    "run_on_all",
    "scenarios",
    "sharing",
    "status",
    "sweep",
    "variant_of",
    "variants_of",
    "what_if",
    "words",
]  # fmt: skip


def compare(
    source: Source = None,
    /,
    *,
    router: str | Sequence[str] | None = None,
    modes: str | Sequence[str] = "feedback",
    repeat: int = 3,
    out: Place | None = None,
    on_event: Callable[[RunEvent], None] = lambda event: None,
    registers: Registers | None = None,
    **keys: object,
) -> list[Comparison]:
    """Run one experiment with every router in every mode, `repeat` times in turn; a row per router and mode.

    `router`: one or several names, None for the fabric's default. `modes`: feedback, no-feedback, oracle (the
    router is told the ground truth). `out`: a directory in which every run leaves its own. All are checked
    before the first starts, and the rate scale of the first run holds for all.

    >>> rows = rw.compare(
    ...     engine="fluid", domains=2, rails=4, size="1M", iterations=4, repeat=1,
    ...     faults=["at=iter:2 degrade rail:1 to=20%"], modes=["no-feedback", "feedback"],
    ... )
    >>> [(row.variant.name, f"{row.ratio:.2f}") for row in rows]
    [('hscore (no feedback)', '1.00'), ('hscore', '2.13')]
    """
    registers = registers or installed()
    if router is None:
        router = load(source, registers=registers, **keys).experiment.router.name
    variants = variants_of(*([names] if isinstance(names, str) else names for names in (router, modes)))
    plans = {v: load(source, registers=registers, **{**keys, **v.keys}) for v in variants}
    rows = in_turn(comparing(plans, repeat), registers, out, on_event=on_event)
    results = {v: [row for row in rows if variant_of(row["settings"]) == v] for v in variants}
    return compare_results(results)


def compare_jobs(
    source: Source = None,
    /,
    *,
    shares: Sequence[int] = SHARES,
    repeat: int = 1,
    on_event: Callable[[RunEvent], None] = lambda event: None,
    registers: Registers | None = None,
    **keys: object,
) -> list[SharedRails]:
    """Run two equal jobs, each on half of the fabric's rails, that have `shares` percent of these rails in
    common: interference and fairness, a row for each. GPUs of common rails carry both jobs.

    The rest as `compare`; the fabric needs a multiple of 8 rails.

    >>> rows = rw.compare_jobs(
    ...     engine="fluid", domains=2, rails=8, size="64K", iterations=2, collective="all-to-all",
    ...     shares=[0, 50],
    ... )
    >>> [(row.percent, f"{row.interference[0]:.2f}") for row in rows]
    [(0, '1.00'), (50, '2.00')]
    """
    registers = registers or installed()
    sweep = sharing(load(source, registers=registers, **keys), shares, repeat)
    rows = in_turn(sweep, registers, on_event=on_event)
    return compare_shares({p: [row for row in rows if row["settings"]["percent"] == p] for p in shares})


def compare_engines(
    source: Source = None,
    /,
    *,
    engines: Sequence[str] = (),
    repeat: int = 1,
    out: Place | None = None,
    on_event: Callable[[RunEvent], None] = lambda event: None,
    registers: Registers | None = None,
    **keys: object,
) -> Agreement:
    """Run one experiment on two engines, `repeat` times, the second at the rate scale of the first, and say
    how far apart they are. `engines`: two names; by default the lab's and the one that predicts it; options
    of an engine go to the engines that have them. `out`: a directory in which every run leaves its own;
    `on_event`: of the first engine.

    >>> rw.compare_engines(domains=2, rails=2, size="64K").verdicts  # doctest: +SKIP
    ('pass', 'pass')
    """
    registers = registers or installed()
    names = engines_of(engines, registers)
    by_engine = keys_by_engine(keys, names, registers)
    plans = {
        name: load(source, registers=registers, **{**with_options, "engine": name})
        for name, with_options in by_engine.items()
    }
    with ExitStack() as stack:
        directory = Path(out or stack.enter_context(TemporaryDirectory(prefix="railweave-")))
        return run_on_all(plans, repeat, registers, directory, on_event)[0]


def what_if(
    run: Place | RunResult,
    /,
    *,
    factors: Sequence[int] = FACTORS,
    on_row: Callable[[WhatIf], None] = lambda row: None,
    registers: Registers | None = None,
    **keys: object,
) -> list[WhatIf]:
    """The experiment of a finished run, by its directory or result, on fabrics with `factors` times its GPUs,
    by the engine that predicts runs: a row for the run itself, then one for each; `on_row` gets each as it is
    computed. `keys` win over the experiment's.

    >>> result = rw.run(engine="fluid", domains=2, rails=2, size="64K", iterations=2)
    >>> [row.gpus for row in rw.what_if(result, factors=[4])]
    [4, 16]
    """
    result = run if isinstance(run, RunResult) else read(run).result
    return larger_runs(result, registers or installed(), factors, on_row, **keys)


def sweep(
    source: Place | None = None,
    /,
    *,
    axes: Mapping[str, object] | None = None,
    drawn: Mapping[str, object] | None = None,
    seeds: int = 1,
    repeats: int = 1,
    sample: int = 0,
    draw_seed: int = 1,
    judge: Mapping[str, object] | None = None,
    out: Place | None = None,
    limit: int | None = None,
    workers: int | None = None,
    on: str | None = None,
    retry_failed: bool = False,
    mix_versions: bool = False,
    add: Place | None = None,
    on_progress: Callable[[Tally], None] = lambda tally: None,
    registers: Registers | None = None,
    **keys: object,
) -> SweepResult:
    """Run every point of a sweep that has no row yet, on all processors, and say what the rows say
    (docs/studies.md). A point that fails has its cause in its row.

    `source`: a file, or the directory of a study; without it, `keys` of the experiment, and the other words
    of the file. `out`: the directory of rows, by default studies/NAME of a file, none of keywords. `limit`:
    the first points alone. `workers`: how many processes, by default one for each processor. `on`: the
    address, or scheduler file, of a Dask cluster that computes instead. `add`: a file of rows of the same
    study from elsewhere.

    >>> swept = rw.sweep(
    ...     axes={"router": ["hscore", "spray"], "depth": ["20%", "60%"]}, engine="fluid", domains=2, rails=4,
    ...     size="1M", iterations=4, faults=["at=iter:2 degrade rail:1 to={depth}"],
    ... )
    >>> [(*row["settings"].values(), row["verdict"]) for row in swept.rows][0]
    ('hscore', '20%', 'pass')
    """
    registers = registers or installed()
    options = {
        "axes": axes, "drawn": drawn, "seeds": seeds, "repeats": repeats, "sample": sample,
        "draw_seed": draw_seed, "judge": judge,
    }  # fmt: skip

    def run_here(plan: Plan, directory: RunDirectory) -> RunResult:
        return run(plan, out=directory, registers=registers)

    return swept(
        None if source is None else Path(source), keys, options, registers, run_here,
        None if out is None else Path(out), workers=workers, on=on, limit=limit, retry_failed=retry_failed,
        mix_versions=mix_versions, add=None if add is None else Path(add), on_progress=on_progress,
    )  # fmt: skip


def bmwg_procedures(
    plan: Plan, routers: Sequence[str], registers: Registers | None = None, *, quick: bool = False
) -> tuple[list[Procedure], dict[str, str]]:
    """The procedures of the BMWG draft that can be run on the fabric of a plan, with each of `routers`; and
    those that cannot, with the reason.

    >>> chosen, others = bmwg_procedures(rw.load(engine="fluid", faults=[]), ["hscore"], quick=True)
    >>> chosen[0].label, others["7.3 convergence of DCQCN"]
    ('9.1 all-reduce, BusBW and JCT ratio (10.1)', 'senders have a window, and no DCQCN')
    """
    chosen, left_out = procedures_on(plan, routers, QUICK if quick else WHOLE, registers or installed())
    return chosen, {**NOT_EMULATED, **left_out}


def bmwg(
    plan: Plan,
    chosen: Sequence[Procedure],
    out: Place,
    registers: Registers | None = None,
    on_point: Callable[[Point], None] = lambda point: None,
) -> list[ProcedureResult]:
    """Run procedures in turn, as a study whose rows and runs are in `out`; one that fails has its error.

    >>> plan = rw.load(engine="fluid", domains=2, rails=2, size="64K", faults=[])
    >>> chosen, _ = bmwg_procedures(plan, ["hscore"], quick=True)
    >>> from tempfile import mkdtemp
    >>> [f"{outcome.figures['jct_ratio']:.2f}" for outcome in bmwg(plan, chosen[:1], mkdtemp())]
    ['1.22']
    """
    registers = registers or installed()
    results, outcomes = list[RunResult](), list[ProcedureResult]()

    def run_here(plan: Plan, place: RunDirectory) -> RunResult:
        results.append(run(plan, out=place, registers=registers))
        return results[-1]

    def add(point: Point, row: Row) -> Row:
        procedure = next(p for p in chosen if p.label == point.settings["procedure"])
        error = row.get("error")
        figures = {} if error is not None else procedure.read(results[-1])
        outcome = ProcedureResult(procedure.section, procedure.name, row.get("verdict"), figures, error)
        outcomes.append(outcome)
        return row

    sweep = study_of(plan, chosen)
    carried_out(sweep, Path(out), registers, run_here, here=True, on_point=on_point, on_row=add)
    return outcomes


def in_turn(
    sweep: Sweep,
    registers: Registers,
    out: Place | None = None,
    *,
    on_event: Callable[[RunEvent], None] = lambda event: None,
    on_point: Callable[[Point], None] = lambda point: None,
    on_row: Callable[[Point, Row], Row] = lambda point, row: row,
) -> tuple[Row, ...]:
    """Run the points of a comparison in this process, in turn, and at the rate scale of the first; their
    rows. `out`: a directory for rows and runs. `on_point`, `on_row`: as `carry_out` calls them.
    Raises RunFailedError once all have run, if any failed.

    >>> routers = comparing({v: rw.load(engine="fluid", domains=2, rails=2, size="64K", iterations=2,
    ...     **v.keys) for v in variants_of(["hscore", "spray"], ["feedback"])}, 1)
    >>> [(*row["settings"].values(), row["verdict"]) for row in in_turn(routers, installed())]
    [('hscore', 'feedback', 'pass'), ('spray', 'feedback', 'pass')]
    """
    with ExitStack() as stack:
        directory = Path(out or stack.enter_context(TemporaryDirectory(prefix="railweave-")))

        def run_here(plan: Plan, place: RunDirectory) -> RunResult:
            return run(plan, out=place, page=out is not None, on_event=on_event, registers=registers)

        rows = carried_out(
            sweep, directory, registers, run_here, here=True, on_point=on_point, on_row=on_row
        ).rows
    if text := failures(rows):
        raise RunFailedError(text)
    return rows
