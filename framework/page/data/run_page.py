"""A RunPage of what a run left behind, or of what is known of it so far."""

import contextlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from railweave.framework.drawing import svg
from railweave.framework.errors import ExperimentError, FabricError
from railweave.framework.experiment import yaml_reader
from railweave.framework.experiment.headline import headline
from railweave.framework.judging.rows import REPAIRS, part_of
from railweave.framework.model import Fabric
from railweave.framework.page.data.figures import figures
from railweave.framework.page.data.items import Arrays, Shown, items, shown
from railweave.framework.page.data.page_data import (
    INSTANTS,
    ITERATIONS,
    MARKS,
    Items,
    Iterations,
    Job,
    Mark,
    Packed,
    Routes,
    RunPage,
    Series,
    Traffic,
)
from railweave.framework.page.data.sentence import both_clocks, sentence, spaced_time
from railweave.framework.page.data.series import closed, series
from railweave.framework.results.figures import Group, Row
from railweave.framework.results.result import RunResult
from railweave.framework.results.rules import SwitchRules
from railweave.framework.runs.recorder import ROUTED_GPUS

UNSAMPLED = 0.02
"""Part of a run without samples at its end that its page mentions."""
MOST_RULES = 400_000
"""Bytes of rules, packed, that a page takes."""


@dataclass(frozen=True)
class Known:
    """What is known of a run. `fabric` has declared rates; `events` are lines of events.jsonl as documents,
    and `lines` how many there are in the file. `experiment`: the text of experiment.yaml; `engine` and
    `planned` iterations as it says."""

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
    traffic: Traffic | None = None
    events: Sequence[Mapping[str, Any]] = ()
    lines: int = 0
    running: bool = False
    left_out: tuple[str, ...] = ()
    """What could not be read, and why."""
    rate_scale: float | None = None
    """As the fabric came up, where there is no result."""
    chosen: Shown | None = None
    """What to show, in place of `shown`."""
    jobs: tuple[Job, ...] = ()
    """Of an experiment with several, where there is no result."""
    unanswered: float | None = None
    """As `sentence` takes it."""


def run_page(known: Known) -> RunPage:
    """The page of a run; pure."""
    result, scale = known.result, known.rate_scale
    if result is not None:
        scale = result.fabric.rate_scale
    fabric = known.fabric if scale is None else known.fabric.scaled(scale)
    samples = known.samples if result is None else closed(fabric, known.samples, result)
    chosen = known.chosen or shown(fabric, samples)
    columns = items(fabric, chosen, result)
    values = Series() if samples is None else series(fabric, chosen, samples)
    done = _iterations(result) if result is not None else _iterations_so_far(known.events)
    marks = _marks(result, columns) if result is not None else _marks_so_far(known.events)
    picture, no_picture = _picture(known.fabric)
    rules, no_rules = _rules(known)
    ends = [
        *values.t_s[-1:],
        *(mark.t_s for mark in marks),
        *map(sum, zip(done.begin_s[-1:], done.seconds[-1:], strict=True)),
    ]
    return RunPage(
        title=known.title,
        state="running" if known.running else "incomplete" if result is None else "complete",
        engine=known.engine,
        verdict="none" if result is None else result.fidelity.verdict,
        reasons=() if result is None else tuple(result.fidelity.reasons),
        sentence=_so_far(known, done) if result is None else sentence(result, known.unanswered),
        resolution=_resolution(fabric, chosen, values, known.running) + _unsampled(known.samples, samples),
        end_s=max(ends, default=0.0),
        rate_scale=scale,
        gpus=fabric.n_gpus,
        picture=picture,
        no_picture=no_picture,
        items=columns,
        series=values,
        iterations=done,
        marks=marks,
        figures=() if result is None else figures(result),
        notes=(*known.left_out, *_notes(known)),
        experiment=known.experiment,
        versions={} if result is None else result.versions,
        repeat=known.repeat,
        events=known.lines,
        jobs=known.jobs if result is None else _jobs(result, columns),
        planned=known.planned,
        what=_what(known),
        traffic=known.traffic,
        routes=None if known.paths is None else _routes(fabric, known.paths),
        rules=rules,
        no_rules=no_rules,
    )


def _notes(known: Known) -> tuple[str, ...]:
    if known.result is not None:
        return known.result.notes
    return tuple(event["text"] for event in known.events if event["kind"] == "note")[:MARKS]


def _routes(fabric: Fabric, paths: Arrays) -> Routes:
    start, links = paths["hop_start"].tolist(), (paths["links"] & ~1).tolist()
    columns = (paths[name].tolist() for name in ("t_s", "src", "dst", "weight"))
    entries = [
        [round(t_s, 6), src, dst, round(weight, 6), links[start[i] : start[i + 1]]]
        for i, (t_s, src, dst, weight) in enumerate(zip(*columns, strict=True))
    ]
    names = tuple(map(fabric.node_name, range(fabric.n_gpus)))
    return Routes(names, Packed.text(json.dumps(entries, separators=(",", ":"))))


def _rules(known: Known) -> tuple[Packed | None, str]:
    """The rules, or why there are none."""
    if known.rules is not None:
        packed = Packed.text(json.dumps([asdict(switch) for switch in known.rules], separators=(",", ":")))
        return (packed, "") if len(packed.zlib) <= MOST_RULES else (None, "They are too many for a page.")
    if known.result is None:
        return None, "They are shown once the run has ended." if known.running else ""
    if not known.result.controller.rules:
        return None, f"The engine {known.engine} is a model: it moves flows by the routes, without switches."
    return None, f"They are kept of up to {ROUTED_GPUS} GPUs." if known.fabric.n_gpus > ROUTED_GPUS else ""


def _what(known: Known) -> str:
    """The experiment in a few words."""
    return headline(known.fabric, {**_document(known), "engine": known.engine})


def _document(known: Known) -> Mapping[str, object]:
    """The experiment as its text says, or else the result."""
    with contextlib.suppress(ExperimentError):
        if document := yaml_reader.parse(known.experiment, "").value:
            return document
    return {} if known.result is None else known.result.experiment


def _picture(fabric: Fabric) -> tuple[Packed | None, str]:
    try:
        return Packed.text(svg(fabric, whole=True)), ""
    except FabricError as error:
        return None, str(error)


def _resolution(fabric: Fabric, chosen: Shown, values: Series, running: bool) -> str:
    n, nodes = len(chosen.links), len(chosen.nodes)
    what = f"All {n} links" if chosen.all_links else f"Of {fabric.n_links} links the {n} that scored worst"
    elements = f" and {nodes} elements" if nodes else ""
    if running:
        return f"{what}{elements}, at {2 * INSTANTS} instants of the run so far at most."
    if not values.t_s:
        return f"{what}{elements}; no samples over time."
    n_instants = f"{len(values.t_s)} instant{'s' * (len(values.t_s) > 1)}"
    return (
        f"{what}{elements}, at {n_instants} (of {INSTANTS} at most), one every "
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


# -- a run with a result -----------------------------------------------------------------------------------
def _iterations(result: RunResult) -> Iterations:
    rows = [row for row in result.rows if row.iteration is not None][:ITERATIONS]
    held = {(one.job, one.iteration): one for one in result.bottlenecks}
    groups = {one.job: one.iterations for one in result.jobs} or {result.iterations.job: result.iterations}

    def part(row: Row) -> str:
        of = groups[row.job]
        parts: dict[str, Group] = {"before": of.before, "during": of.during, "after": of.after}
        return next((name for name, group in parts.items() if row.iteration in group.iterations), "during")

    bottlenecks = [held.get((row.job, row.iteration)) for row in rows]
    return Iterations(
        number=tuple(row.iteration or 0 for row in rows),
        job=tuple(row.job for row in rows),
        begin_s=tuple(round(row.t_s, 6) for row in rows),
        seconds=tuple(row.time_us * 1e-6 for row in rows),
        declared_us=tuple(row.declared_time_us for row in rows),
        size_bytes=tuple(row.size_bytes for row in rows),
        busbw_gbs=tuple(row.busbw_gbs for row in rows),
        wrong=tuple(row.wrong for row in rows),
        limit=tuple(row.ratio_to_bound for row in rows),
        part=tuple(map(part, rows)),
        held_by=tuple(None if b is None or b.balanced else b.name for b in bottlenecks),
        share=tuple(None if b is None else round(b.share, 4) for b in bottlenecks),
    )


def _marks(result: RunResult, columns: Items) -> tuple[Mark, ...]:
    index = {name: i for i, name in enumerate(columns.name)}
    marks: list[Mark] = []
    for fault in result.faults:
        if fault.t_s is None:
            continue
        touched = [index[name] for name in (fault.target, *fault.link_scores) if name in index]
        marks.append(Mark(fault.t_s, "fault", fault.text, tuple(dict.fromkeys(touched))))
        if fault.detected_s is not None:
            who = "the router is told" if result.experiment.get("oracle") else "the scores show it"
            after = f"{who} {both_clocks(fault.detected_s, result.fabric.rate_scale)} after: {fault.text}"
            marks.append(Mark(fault.t_s + fault.detected_s, "seen", after, marks[-1].items))
    largest = sorted(result.reroutes, key=lambda reroute: -reroute.pairs_changed)[: MARKS - len(marks)]
    marks += [Mark(r.t_s, "reroute", f"{r.pairs_changed} pairs, because {r.why}") for r in largest]
    return tuple(sorted(marks, key=lambda mark: mark.t_s)[:MARKS])


def _jobs(result: RunResult, columns: Items) -> tuple[Job, ...]:
    by_link = {one.name: one.job_bytes for one in result.links}

    def carried(job: int, of_elements: Mapping[str, int] | None) -> tuple[int | None, ...] | None:
        if of_elements is None:
            return None
        links = {name: all_jobs[job] for name, all_jobs in by_link.items() if len(all_jobs) > job}
        return tuple(of_elements.get(name, links.get(name)) for name in columns.name)

    return tuple(
        Job(
            one.job, one.name, one.ranks, one.fidelity.verdict, one.alone_us, one.together_us,
            one.interference, one.error, carried(one.job, one.element_bytes),
        )
        for one in result.jobs
    )  # fmt: skip


# -- a run without one ---------------------------------------------------------------------------------------
def _iterations_so_far(events: Sequence[Mapping[str, Any]]) -> Iterations:
    ended = [event for event in events if event["kind"] == "iteration"][:ITERATIONS]
    n, seconds = len(ended), [float(event["seconds"]) for event in ended]
    ends = [event.get("end_s", sum(seconds[: i + 1])) for i, event in enumerate(ended)]
    begins = [end_s - took_s for end_s, took_s in zip(ends, seconds, strict=True)]
    nothing = (None,) * n
    faults = [(event["t_s"], not set(REPAIRS).isdisjoint(event["text"].split())) for event in events
              if event["kind"] == "fault"]  # fmt: skip
    answers = [event["t_s"] for event in events if event["kind"] == "reroute"]
    part = part_of(faults, answers)
    return Iterations(
        number=tuple(event["iteration"] for event in ended),
        job=tuple(event.get("job", 0) for event in ended),
        begin_s=tuple(begins),
        seconds=tuple(seconds),
        declared_us=nothing,
        size_bytes=nothing,
        busbw_gbs=nothing,
        wrong=tuple(event.get("wrong") for event in ended),
        limit=nothing,
        part=tuple(map(part, begins, ends)),
        held_by=nothing,
        share=nothing,
    )


def _marks_so_far(events: Sequence[Mapping[str, Any]]) -> tuple[Mark, ...]:
    marks = []
    for event in events:
        if event["kind"] == "fault":
            marks.append(Mark(event["t_s"], "fault", event["text"]))
        elif event["kind"] == "reroute":
            marks.append(
                Mark(event["t_s"], "reroute", f"{event['pairs_changed']} pairs, because {event['why']}")
            )
    return tuple(marks[:MARKS])


def _so_far(known: Known, done: Iterations) -> str:
    n, of = len(done.number), "" if known.planned is None else f" of {known.planned}"
    if known.running:
        return f"The run is under way: {n}{of} iterations have ended."
    return f"This run has no result: it failed, was killed or still runs. {n}{of} iterations had ended."
