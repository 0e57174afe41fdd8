"""What scripts, notebooks and the command call: `import railweave as rw`, then `rw.run(...)`.

Keyword arguments are the keys of the experiment file (docs/experiment.md), and, flat as on the command line,
the parameters of the chosen plugins: `rw.run(domains=8, size="4M", faults=["..."])`. No fault is injected and
no directory written unless asked for. Bad input raises the error whose message the command prints; each is a
`RailweaveError`.

`registers` stands in for the installed plugins; front ends and tests pass it, scripts need not.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from railweave.framework.analysis.assumed_health import AssumedScores, assumed_health, read_scores
from railweave.framework.analysis.explain import ExplainedPair, explain_pair
from railweave.framework.analysis.link_loads import LoadReport, report, tables_asked
from railweave.framework.analysis.link_loads import pattern as demand_pattern
from railweave.framework.errors import InputError, RailweaveError
from railweave.framework.experiment.plan import Plan, Routed, build_fabric, plan_from_keys, routed_from_keys
from railweave.framework.hookspecs import Fact
from railweave.framework.judging.agreement import Agreement
from railweave.framework.model import Fabric
from railweave.framework.model.events import Note, RunEvent
from railweave.framework.registry import Registers, load_plugins
from railweave.framework.results.directory import Run, RunDirectory, read_result
from railweave.framework.results.result import RunResult
from railweave.framework.runs import runner
from railweave.framework.studies.carrying_out import Tally
from railweave.framework.studies.chaos import ended, judge, scenarios
from railweave.framework.studies.comparison import Comparison, Variant, variants_of
from railweave.framework.studies.comparison import compare as compare_results
from railweave.framework.studies.shared_rails import SHARES, SharedRails, compare_shares, jobs_sharing
from railweave.framework.studies.sweeps import SweepResult
from railweave.framework.studies.sweeps import sweep as swept
from railweave.framework.studies.two_engines import engines_of, run_both
from railweave.framework.studies.what_if import FACTORS, WhatIf
from railweave.framework.studies.what_if import what_if as larger_runs

if TYPE_CHECKING:
    from railweave.framework.lab.handle.client import LabClient

__all__ = [
    "FACTORS", "PAGE", "SHARES", "Agreement", "AssumedScores", "Comparison", "ExplainedPair", "Fact",
    "LoadReport", "SharedRails", "SweepResult", "Variant", "WhatIf", "compare", "compare_engines",
    "compare_jobs",
    "compare_results", "compare_shares", "compared_runs", "ended", "engines_of", "explain",
    "installed", "jobs_sharing", "judge", "lab", "load", "loads", "read", "read_scores", "run",
    "run_both", "scenarios", "sweep", "topology", "variants_of", "what_if",
]  # fmt: skip

Source = Plan | Mapping[str, object] | str | PathLike[str] | None
"""An experiment: a plan made by `load`, the content of a file, a file, or None for the defaults."""
PAGE = "report.html"
"""What a run leaves in its directory for people to open (docs/report.md)."""
Place = str | PathLike[str]
VariantT = TypeVar("VariantT")


@cache
def installed() -> Registers:
    """The installed plugins, loaded once per process. Raises PluginError naming one that cannot be loaded.

    >>> "hscore" in installed()["router"]
    True
    """
    return load_plugins()


def load(source: Source = None, /, *, registers: Registers | None = None, **keys: object) -> Plan:
    """The checked plan of an experiment; nothing runs. Keys win over the source's.

    Raises ExperimentError that lists everything wrong at once, InputError for a plan with keys.

    >>> plan = rw.load(domains=2, rails=2, size="64K")
    >>> plan.fabric.n_gpus, plan.experiment.router.name
    (4, 'hscore')
    """
    if isinstance(source, Plan):
        if keys:
            raise InputError(
                f"{', '.join(keys)}: a Plan is complete and takes no further keys. Give them to rw.load."
            )
        return source
    base = source if source is None or isinstance(source, Mapping) else Path(source)
    return plan_from_keys(keys, registers or installed(), base=base)


def run(
    source: Source = None,
    /,
    *,
    out: Place | RunDirectory | None = None,
    predict: bool = False,
    page: bool = True,
    on_event: Callable[[RunEvent], None] = lambda event: None,
    registers: Registers | None = None,
    **keys: object,
) -> RunResult:
    """Run an experiment to its end; the result as docs/results.md describes it.

    `out`: a new or empty directory for everything the run writes, and with `page` report.html. `predict`:
    what the engine `fluid` makes of every iteration stands next to it (`predicted_us`). `on_event` receives
    each event as it happens, in the calling thread. Interrupting the call ends the lab.

    Raises ExperimentError before anything starts, and LabError, TransportError, ControllerError or
    MachineError when the run fails. Wrong elements and an invalid verdict are in the result and raise
    nothing.

    >>> result = rw.run(engine="fluid", domains=2, rails=2, size="64K", iterations=2)
    >>> f"{result.summary.declared_time_us:.3f} us, {result.fidelity.verdict}"
    '0.813 us, pass'
    """
    registers = registers or installed()
    plan = load(source, registers=registers, **keys)
    directory = out if isinstance(out, RunDirectory) or out is None else RunDirectory.create(Path(out), "")
    return _run(plan, registers, directory, on_event, predict=predict, page=page)


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

    def directory(turn: int, variant: Variant) -> RunDirectory | None:
        name = f"{turn + 1}-{variant.router}-{variant.mode}"
        return None if out is None else RunDirectory.create(Path(out) / name, "")

    results: dict[Variant, list[RunResult]] = {variant: [] for variant in variants}
    for variant, result in compared_runs(plans, repeat, registers, directory, on_event):
        results[variant].append(result)
    return compare_results(list(results.items()))


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
    fabric = load(source, registers=registers, **keys).fabric
    jobs = {percent: jobs_sharing(fabric, percent) for percent in shares}
    plans = {percent: load(source, registers=registers, **keys, jobs=two) for percent, two in jobs.items()}
    results: dict[int, list[RunResult]] = {percent: [] for percent in plans}
    for percent, result in compared_runs(plans, repeat, registers, lambda *_: None, on_event):
        results[percent].append(result)
    return compare_shares(results)


def compare_engines(
    source: Source = None,
    /,
    *,
    engines: Sequence[str] = (),
    out: Place | None = None,
    on_event: Callable[[RunEvent], None] = lambda event: None,
    registers: Registers | None = None,
    **keys: object,
) -> Agreement:
    """Run one experiment on two engines, the second at the rate scale of the first, and say how far apart
    they are. `engines`: two names; by default the lab's and the one that predicts it. `out`: a directory
    in which both runs leave their own; `on_event`: of the first run.

    >>> rw.compare_engines(domains=2, rails=2, size="64K").verdicts  # doctest: +SKIP
    ('pass', 'pass')
    """
    registers = registers or installed()
    first, second = engines_of(engines, registers)
    plans = [load(source, registers=registers, **{**keys, "engine": name}) for name in (first, second)]

    def directory(name: str) -> RunDirectory | None:
        return None if out is None else RunDirectory.create(Path(out) / name, "")

    return run_both((plans[0], plans[1]), registers, directory, on_event)


def what_if(
    run: Place | RunResult,
    /,
    *,
    factors: Sequence[int] = FACTORS,
    registers: Registers | None = None,
    **keys: object,
) -> Iterator[WhatIf]:
    """The experiment of a finished run, by its directory or result, on fabrics with `factors` times its GPUs,
    by the engine that predicts runs: a row for the run itself, then one for each, as it is computed. `keys`
    win over the experiment's.

    >>> result = rw.run(engine="fluid", domains=2, rails=2, size="64K", iterations=2)
    >>> [row.gpus for row in rw.what_if(result, factors=[4])]
    [4, 16]
    """
    result = run if isinstance(run, RunResult) else read(run).result
    return larger_runs(result, registers or installed(), factors, **keys)


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

    def run_lab(plan: Plan, directory: RunDirectory) -> RunResult:
        return _run(plan, registers, directory, lambda event: None)

    return swept(
        None if source is None else Path(source), keys, options, registers, run_lab,
        None if out is None else Path(out), workers=workers, on=on, limit=limit, retry_failed=retry_failed,
        mix_versions=mix_versions, add=None if add is None else Path(add), on_progress=on_progress,
    )  # fmt: skip


def compared_runs(
    plans: Mapping[VariantT, Plan],
    repeat: int,
    registers: Registers,
    directory: Callable[[int, VariantT], RunDirectory | None],
    on_event: Callable[[RunEvent], None] = lambda event: None,
) -> Iterator[tuple[VariantT, RunResult]]:
    """The results of all plans, `repeat` times in turn, at the rate scale of the first run.

    >>> plans = {n: rw.load(engine="fluid", domains=n, rails=2, size="64K", iterations=2) for n in (2, 4)}
    >>> runs = compared_runs(plans, 1, installed(), lambda turn, n: None)
    >>> [(n, result.fabric.gpus) for n, result in runs]
    [(2, 4), (4, 8)]
    """
    scale: float | None = None
    for turn in range(repeat):
        for variant, plan in plans.items():
            if len(plan.jobs) > 1 and isinstance(variant, Variant):
                raise InputError("jobs: routers are compared with one job. Leave out all jobs but one.")
            pinned = plan if scale is None else plan.at_scale(scale)
            result = _run(pinned, registers, directory(turn, variant), on_event)
            scale = result.fabric.rate_scale
            yield variant, result


def _run(
    plan: Plan,
    registers: Registers,
    directory: RunDirectory | None,
    on_event: Callable[[RunEvent], None],
    *,
    predict: bool = False,
    page: bool = True,
) -> RunResult:
    """A run that leaves its page in its directory; a page that cannot be written becomes a note."""
    result = runner.run(plan, registers, directory, on_event, predict=predict)
    if directory is None or not page:
        return result
    from railweave.framework.page.data.directories import page_of_run
    from railweave.framework.page.html import write_report

    try:
        data = page_of_run(directory.path, registers, result=result, fabric=plan.fabric)
        write_report(data, directory.path / PAGE)
    except RailweaveError as error:
        on_event(Note(f"there is no {PAGE}: {error}"))
    return result


@contextmanager
def lab(
    source: Source = None,
    /,
    *,
    on_event: Callable[[RunEvent], None] = lambda event: None,
    registers: Registers | None = None,
    **keys: object,
) -> Iterator["LabClient"]:
    """A lab that stays up during a `with` block: routes installed, health measured, hosts that run programs.

    `lab.exec("h0.0", ["ping", "-c2", "h1.0"])`, `lab.fault(...)`, `lab.health()`, `lab.routes(SRC, DST)`,
    `lab.run(collective=..., size=...)`. `on_event` receives every event in a thread of its own, and must ask
    nothing of the lab. The thread that opens a lab must live as long as it does.

    >>> with rw.lab(domains=2, rails=2) as lab:  # doctest: +SKIP
    ...     lab.fault("degrade rail:1 to=20%")
    ...     print(lab.exec("h0.0", ["ping", "-c2", "h1.0"]).stdout)
    """
    from railweave.framework.lab.handle.opening import open_lab

    registers = registers or installed()
    with open_lab(load(source, registers=registers, **keys), registers, on_event) as opened:
        yield opened


def explain(
    src: str,
    dst: str,
    *,
    routed: Routed | None = None,
    scores: Place | AssumedScores | None = None,
    registers: Registers | None = None,
    **keys: object,
) -> ExplainedPair:
    """The paths from GPU `src` to GPU `dst` hop by hop, and why the router chose them. No lab.

    GPUs by name (`g0.1`) or coordinates (`0,1`). `keys`: topology, router (names or objects), their
    parameters, and `faults` that have already happened, such as `degrade rail:1 to=20%`. `scores`: a YAML
    file of assumed h-scores. `routed` stands in for the keys.

    >>> pair = rw.explain("g0.0", "g1.1", domains=2, rails=2, faults=["degrade rail:1 to=20%"])
    >>> [hop.link for hop in pair.paths[0].hops]
    ['g0.0->r0', 'r0->g1.0', 'g1.0->d1', 'd1->g1.1']
    """
    fabric, name, router, faults = routed or routed_from_keys(keys, registers or installed())
    scores = AssumedScores() if scores is None else scores
    assumed = scores if isinstance(scores, AssumedScores) else read_scores(Path(scores), fabric)
    pair = assumed.counting.gpu(fabric, src, "SRC"), assumed.counting.gpu(fabric, dst, "DST")
    health = assumed_health(fabric, assumed, faults)
    return explain_pair(name, router, fabric, health, pair, assumed.counting)


def loads(
    pattern: str = "all-to-all",
    *,
    routed: Routed | None = None,
    seed: int = 1,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
    registers: Registers | None = None,
    **keys: object,
) -> LoadReport:
    """The load of every link under a traffic pattern, by the router's paths. No lab.

    `pattern`: all-to-all, permutation (drawn with `seed`), or a file of bytes, GPUs x GPUs. `keys` as for
    `explain`. `on_progress(done, total)` is called as pairs are routed.

    >>> rw.loads(domains=2, rails=2, faults=["degrade rail:1 to=20%"]).ratio
    0.5
    """
    fabric, name, router, faults = routed or routed_from_keys(keys, registers or installed())
    demand = demand_pattern(pattern, fabric, seed)
    health = assumed_health(fabric, None, faults)
    pairs = fabric.n_gpus * (fabric.n_gpus - 1) if demand.uniform else len(demand.src)
    done = 0

    def routed_pairs(count: int) -> None:
        nonlocal done
        done += count
        on_progress(done, pairs * tables_asked(health))

    return report(name, router, fabric, health, demand, routed_pairs)


def topology(
    name: str = "rail-only", /, *, registers: Registers | None = None, **parameters: object
) -> Fabric:
    """A fabric with its declared rates: `rw.topology("torus", shape="4x4x4")`.

    Raises ExperimentError that lists every parameter that is wrong.

    >>> rw.topology("rail-only", domains=2, rails=2)
    <Fabric rail-only: 4 GPUs, 4 switches, 16 links>
    """
    labels = {"topology": "topology", **{f"topology.{key}": key for key in parameters}}
    return build_fabric(name, parameters, labels, registers or installed())


def read(run: Place, /) -> Run:
    """What a run left in its directory: its result, events and health samples.

    Raises InputError for a directory that is none of a run, or of a run that never finished, with what is
    there.

    >>> result = rw.run(engine="fluid", domains=2, rails=2, size="64K", iterations=2, out="a-run")
    >>> rw.read("a-run").result == result
    True
    """
    return Run(Path(run), read_result(Path(run)))
