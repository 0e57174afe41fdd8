"""A RunPage of what a run left behind, or of what is known of it so far."""

import contextlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace

from railweave.framework.drawing import svg
from railweave.framework.errors import ExperimentError, FabricError
from railweave.framework.experiment import yaml_reader
from railweave.framework.experiment.headline import headline
from railweave.framework.model import Fabric
from railweave.framework.page.data.course import Course, placed
from railweave.framework.page.data.figure_texts import figures
from railweave.framework.page.data.items import Arrays, Shown, column, items, shown
from railweave.framework.page.data.page_data import (
    INSTANTS,
    MARKS,
    Items,
    Iterations,
    Mark,
    Packed,
    PageData,
    Routes,
    RunPage,
    Series,
    ShownJob,
    ShownTraffic,
)
from railweave.framework.page.data.sentence import both_clocks, sentence, so_far, spaced_time
from railweave.framework.page.data.series import closed, series
from railweave.framework.results.result import RunResult
from railweave.framework.results.rule_file import SwitchRules
from railweave.framework.runs.recorder import ROUTED_GPUS

UNSAMPLED = 0.02
"""Share of a run's time, 0..1, without samples at its end from which the page says so."""
EVENT_COLUMNS = ("number", "job", "begin_s", "seconds", "wrong", "part")
"""Figures of iterations that events fill."""
MOST_RULES = 400_000
"""Bytes of rules, packed, up to which a page holds them."""


@dataclass(frozen=True)
class Known:
    """What is known of a run. `fabric` has declared rates; `course` is what its events reduce to, `lines` how
    many of them there are. `experiment`: the text of experiment.yaml; `engine` and `planned` iterations as it
    says."""

    title: str
    fabric: Fabric
    engine: str
    experiment: str
    repeat: str
    planned: int | None = None
    result: RunResult | None = None
    samples: Arrays | None = None
    paths: Arrays | None = None
    rules: Sequence[SwitchRules] | None = None
    traffic: ShownTraffic | None = None
    course: Course = field(default_factory=Course)
    lines: int = 0
    running: bool = False
    left_out: tuple[str, ...] = ()
    """What could not be read, and why."""
    chosen: Shown | None = None
    """What to show, in place of `shown`."""
    jobs: tuple[ShownJob, ...] = ()
    """Of an experiment with several, where there is no result."""
    unanswered: float | None = None
    """As `sentence` takes it."""


def page_of(run: Known) -> PageData:
    """The page of a run alone; pure."""
    page = run_page(run)
    return PageData("run", page.title, page.sentence, (page,))


def run_page(run: Known) -> RunPage:
    """The page of a run; pure."""
    result, course = run.result, run.course
    scale = course.rate_scale if result is None else result.fabric.rate_scale
    fabric = run.fabric if scale is None else run.fabric.scaled(scale)
    samples = run.samples if result is None else closed(fabric, run.samples, result)
    chosen = run.chosen or shown(fabric, samples)
    columns = items(fabric, chosen, result)
    values = Series() if samples is None else series(fabric, chosen, samples)
    marks = _marks(course, result, columns)
    picture, no_picture = _picture(run.fabric)
    rules, no_rules = _rules(run)
    return RunPage(
        title=run.title,
        state="running" if run.running else "incomplete" if result is None else "complete",
        engine=run.engine,
        verdict="none" if result is None else result.fidelity.verdict,
        reasons=() if result is None else tuple(result.fidelity.reasons),
        sentence=so_far(course.ended, run.planned, running=run.running)
        if result is None
        else sentence(result, run.unanswered),
        resolution=_resolution(fabric, chosen, values, run.running) + _unsampled(run.samples, samples),
        end_s=max([course.end_s, *values.t_s[-1:], *(mark.t_s for mark in marks[-1:])]),
        rate_scale=scale,
        gpus=fabric.n_gpus,
        picture=picture,
        no_picture=no_picture,
        items=columns,
        series=values,
        iterations=_iterations(course, result),
        marks=marks,
        figures=() if result is None else figures(result),
        notes=(*run.left_out, *course.notes),
        experiment=run.experiment,
        versions={} if result is None else result.versions,
        repeat=run.repeat,
        events=run.lines,
        jobs=run.jobs if result is None else _jobs(result, columns),
        planned=run.planned,
        what=headline(run.fabric, {**_document(run), "engine": run.engine}),
        traffic=run.traffic,
        routes=None if run.paths is None else _routes(fabric, run.paths),
        rules=rules,
        no_rules=no_rules,
    )


def _routes(fabric: Fabric, paths: Arrays) -> Routes:
    start, links = paths["hop_start"].tolist(), (paths["links"] & ~1).tolist()
    columns = (paths[name].tolist() for name in ("t_s", "src", "dst", "weight"))
    entries = [
        [round(t_s, 6), src, dst, round(weight, 6), links[start[i] : start[i + 1]]]
        for i, (t_s, src, dst, weight) in enumerate(zip(*columns, strict=True))
    ]
    names = tuple(map(fabric.node_name, range(fabric.n_gpus)))
    return Routes(names, Packed.text(json.dumps(entries, separators=(",", ":"))))


def _rules(run: Known) -> tuple[Packed | None, str]:
    """The rules, or why there are none."""
    if run.rules is not None:
        packed = Packed.text(json.dumps([asdict(switch) for switch in run.rules], separators=(",", ":")))
        return (packed, "") if len(packed.zlib) <= MOST_RULES else (None, "They are too many for a page.")
    if run.result is None:
        return None, "They are shown once the run has ended." if run.running else ""
    if not run.result.controller.rules:
        return None, f"The engine {run.engine} is a model: it moves flows by the routes, without switches."
    return None, f"They are kept of up to {ROUTED_GPUS} GPUs." if run.fabric.n_gpus > ROUTED_GPUS else ""


def _document(run: Known) -> Mapping[str, object]:
    """The experiment as its text says, or else the result."""
    with contextlib.suppress(ExperimentError):
        if document := yaml_reader.parse(run.experiment, "").value:
            return document
    return {} if run.result is None else run.result.experiment


def _picture(fabric: Fabric) -> tuple[Packed | None, str]:
    try:
        return Packed.text(svg(fabric, whole=True)), ""
    except FabricError as error:
        return None, str(error)


def _resolution(fabric: Fabric, chosen: Shown, values: Series, running: bool) -> str:
    n, nodes = len(chosen.links), len(chosen.nodes)
    extent = f"All {n} links" if chosen.all_links else f"Of {fabric.n_links} links the {n} that scored worst"
    elements = f" and {nodes} elements" if nodes else ""
    if running:
        return f"{extent}{elements}, at {2 * INSTANTS} instants of the run so far at most."
    if not values.t_s:
        return f"{extent}{elements}; no samples over time."
    n_instants = f"{len(values.t_s)} instant{'s' * (len(values.t_s) > 1)}"
    return (
        f"{extent}{elements}, at {n_instants} (of {INSTANTS} at most), one every "
        f"{spaced_time(values.step_s)} of the run's clock; scores and loads in steps of 0.005, queues of 6 %."
    )


def _unsampled(sampled: Arrays | None, shown_as: Arrays | None) -> str:
    """From when on curves only repeat what was sampled last; "" where samples go on to the end."""
    if sampled is None or shown_as is None or not len(sampled["t_s"]):
        return ""
    last_s, end_s = float(sampled["t_s"][-1]), float(shown_as["t_s"][-1])
    if end_s - last_s <= UNSAMPLED * end_s:
        return ""
    return (
        f" Nothing was sampled after {spaced_time(last_s)}: from there on scores are as they were last, and "
        "loads are means to the end."
    )


# -- events, and what a result adds to them ----------------------------------------------------------------
def _iterations(course: Course, result: RunResult | None) -> Iterations:
    done = {name: tuple(row[name] for row in course.iterations) for name in EVENT_COLUMNS}
    keys = list(zip(done["job"], done["number"], strict=True))
    measured = {} if result is None else {(row.job, row.iteration): row for row in result.rows}
    holders = (
        {}
        if result is None
        else {(bottleneck.job, bottleneck.iteration): bottleneck for bottleneck in result.bottlenecks}
    )
    rows, bottlenecks = [measured.get(key) for key in keys], [holders.get(key) for key in keys]
    return Iterations(
        **done,
        declared_us=column(rows, lambda row: row.declared_time_us),
        size_bytes=column(rows, lambda row: row.size_bytes),
        busbw_gbs=column(rows, lambda row: row.busbw_gbs),
        limit=column(rows, lambda row: row.ratio_to_bound),
        held_by=column(bottlenecks, lambda holder: None if holder.balanced else holder.name),
        share=column(bottlenecks, lambda holder: round(holder.share, 4)),
    )


def _marks(course: Course, result: RunResult | None, columns: Items) -> tuple[Mark, ...]:
    """In order of time; a result knows of a fault which links it was done to, and when it was seen."""
    faults = {} if result is None else {(fault.t_s, fault.text): fault for fault in result.faults}
    marks: list[Mark] = []
    for _, mark in course.heaviest():
        fault = faults.get((mark.t_s, mark.text)) if mark.kind == "fault" else None
        links = () if fault is None else (fault.target, *fault.link_scores)
        marks.append(placed(mark, columns.name, *links))
        if fault is None or fault.detected_s is None or result is None:
            continue
        who = "the router is told" if result.experiment.get("oracle") else "the scores show it"
        after = f"{who} {both_clocks(fault.detected_s, result.fabric.rate_scale)} after: {mark.text}"
        marks.append(replace(marks[-1], t_s=mark.t_s + fault.detected_s, kind="seen", text=after))
    first = sorted(marks, key=lambda mark: mark.kind == "reroute")[:MARKS]
    return tuple(sorted(first, key=lambda mark: mark.t_s))


def _jobs(result: RunResult, columns: Items) -> tuple[ShownJob, ...]:
    by_link = {link.name: link.job_bytes for link in result.links}

    def carried(job: int, of_elements: Mapping[str, int] | None) -> tuple[int | None, ...] | None:
        if of_elements is None:
            return None
        links = {name: all_jobs[job] for name, all_jobs in by_link.items() if len(all_jobs) > job}
        return tuple(of_elements.get(name, links.get(name)) for name in columns.name)

    return tuple(
        ShownJob(
            job.job, job.name, job.ranks, job.fidelity.verdict, job.alone_us, job.together_us,
            job.interference, job.error, carried(job.job, job.element_bytes),
        )
        for job in result.jobs
    )  # fmt: skip
