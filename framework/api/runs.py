"""Experiments: planned, run, kept in a lab, explained; and what a run left."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from railweave.framework.analysis.assumed_health import AssumedScores, assumed_health, read_scores
from railweave.framework.analysis.explain import ExplainedPair, explain_pair
from railweave.framework.analysis.link_loads import LoadReport, report, tables_asked
from railweave.framework.analysis.link_loads import pattern as demand_pattern
from railweave.framework.api.objects import named, offer_to_labs
from railweave.framework.errors import InputError, RailweaveError
from railweave.framework.experiment.plan import Plan, Routed, build_fabric, plan_from_keys, routed_from_keys
from railweave.framework.hookspecs import Fact
from railweave.framework.model import Fabric
from railweave.framework.model.events import Note, RunEvent
from railweave.framework.registry import Registers, load_plugins
from railweave.framework.results.directory import Run, RunDirectory, read_result
from railweave.framework.results.result import RunResult
from railweave.framework.runs import runner

if TYPE_CHECKING:
    from railweave.framework.lab.handle.client import LabClient

__all__ = [
    "PAGE", "AssumedScores", "ExplainedPair", "Fact", "LoadReport", "Place", "Source", "explain", "installed",
    "lab", "load", "loads", "read", "read_scores", "run", "topology",
]  # fmt: skip

Source = Plan | Mapping[str, object] | str | PathLike[str] | None
"""An experiment: a plan made by `load`, the content of a file, a file, or None for the defaults."""
PAGE = "report.html"
"""What a run leaves in its directory for people to open (docs/report.md)."""
Place = str | PathLike[str]


@cache
def installed() -> Registers:
    """The installed plugins, loaded once per process. Raises PluginError naming one that cannot be loaded.

    >>> "hscore" in installed()["router"]
    True
    """
    return load_plugins()


def load(source: Source = None, /, *, registers: Registers | None = None, **keys: object) -> Plan:
    """The checked plan of an experiment; nothing runs. Keys win over the source's. A plugin may be an object
    in place of its name, such as `router=MyRouter()`; the lab needs it from a file.

    Raises ExperimentError that lists everything wrong at once, InputError for a plan with keys.

    >>> plan = rw.load(domains=2, rails=2, size="64K")
    >>> plan.fabric.n_gpus, plan.experiment.router.name
    (4, 'hscore')
    """
    return _loaded(source, registers, keys)[0]


def _loaded(
    source: Source, registers: Registers | None, keys: Mapping[str, object]
) -> tuple[Plan, Registers]:
    """The plan, and the registers with the plugins that keys give as objects."""
    registers = registers or installed()
    if isinstance(source, Plan):
        if keys:
            raise InputError(
                f"{', '.join(keys)}: a Plan is complete and takes no further keys. Give them to rw.load."
            )
        return source, registers
    keys, registers, objects = named(keys, registers)
    base: Mapping[str, object] | Path | None = None
    if isinstance(source, Mapping):
        base, registers, of_source = named(source, registers)
        objects = [*objects, *of_source]
    elif source is not None:
        base = Path(source)
    plan = plan_from_keys(keys, registers, base=base)
    if plan.engine.packets:
        offer_to_labs(objects)
    return plan, registers


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
    plan, registers = _loaded(source, registers, keys)
    directory = out if isinstance(out, RunDirectory) or out is None else RunDirectory.create(Path(out), "")
    result = runner.run(plan, registers, directory, on_event, predict=predict)
    if directory is not None and page:
        _write_page(directory.path, registers, result, plan.fabric, on_event)
    return result


def _write_page(
    path: Path, registers: Registers, result: RunResult, fabric: Fabric, on_event: Callable[[RunEvent], None]
) -> None:
    """A page that cannot be written becomes a note."""
    from railweave.framework.page.data.directories import page_of_run
    from railweave.framework.page.html import write_report

    try:
        write_report(page_of_run(path, registers, result=result, fabric=fabric), path / PAGE)
    except RailweaveError as error:
        on_event(Note(f"there is no {PAGE}: {error}"))


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

    plan, registers = _loaded(source, registers, keys)
    with open_lab(plan, registers, on_event) as opened:
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
