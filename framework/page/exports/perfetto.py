"""A run as trace-event JSON, which Perfetto (ui.perfetto.dev) and chrome://tracing open.

Source: "Trace Event Format", Google, the phases X, C, i and M. Times are those of the run's clock, in
microseconds.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from math import inf
from typing import Any

import numpy as np

from railweave.framework.page.exports.exported_run import ExportedIteration, ExportedRun

JOBS, LINKS, HEALTH, RANKS = 1, 2, 3, 4
"""Processes of the trace, a group of tracks each; the ranks of job n are RANKS + n."""
MOST_LINKS, MOST_INSTANTS, MOST_RANKS = 256, 2000, 256
"""Links that have counters, those with the longest queues, and samples of each; ranks that have tracks."""
INSTANTS = ("fault", "health", "reroute")


def trace_of(run: ExportedRun) -> str:
    """One JSON object; what it leaves out is under `otherData`."""
    links, step = _chosen(run)
    left_out = []
    if len(links) < run.fabric.n_links:
        left_out.append(f"counters of {run.fabric.n_links - len(links)} of {run.fabric.n_links} links")
    if step > 1:
        left_out.append(f"all samples but every {step}th")
    if (most := max((job.ranks for job in run.jobs), default=0)) > MOST_RANKS:
        left_out.append(f"tracks of {most - MOST_RANKS} of {most} ranks")
    iterations = _iterations(run)
    events = [*_names(run), *iterations, *_ranks(run), *_happened(run), *_counters(run, links, step)]
    other = {"run": run.title, "clock": "emulated", "left_out": "; ".join(left_out)}
    trace = {"traceEvents": events, "displayTimeUnit": "ms", "otherData": other}
    return json.dumps(trace, allow_nan=False) + "\n"


def _chosen(run: ExportedRun) -> tuple[list[int], int]:
    """Which links have counters, and of how many samples one is kept."""
    samples = run.samples
    if samples is None or not len(samples["t_s"]):
        return [], 1
    longest = np.nan_to_num(samples["queue_bytes"]).max(axis=0)
    links = np.sort(np.argsort(-longest, kind="stable")[:MOST_LINKS])
    return links.tolist(), -(-len(samples["t_s"]) // MOST_INSTANTS)


def _names(run: ExportedRun) -> Iterator[Mapping[str, Any]]:
    yield from _process(JOBS, "jobs")
    for job in run.jobs:
        title = f"{job.name or 'job'} ({job.algorithm}, {job.ranks} ranks)"
        yield from _thread(JOBS, job.number + 1, title, job.number)
    yield from _process(LINKS, "links")
    yield from _process(HEALTH, "health")


def _process(pid: int, name: str) -> Iterator[Mapping[str, Any]]:
    yield {"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "args": {"name": name}}
    yield {"ph": "M", "name": "process_sort_index", "pid": pid, "tid": 0, "args": {"sort_index": pid}}


def _thread(pid: int, tid: int, name: str, place: int) -> Iterator[Mapping[str, Any]]:
    yield {"ph": "M", "name": "thread_name", "pid": pid, "tid": tid, "args": {"name": name}}
    yield {"ph": "M", "name": "thread_sort_index", "pid": pid, "tid": tid, "args": {"sort_index": place}}


def _iterations(run: ExportedRun) -> Iterator[Mapping[str, Any]]:
    for done, next_s in _with_next(run.iterations):
        figures = {
            "size_bytes": done.size_bytes,
            "declared_us": done.declared_us,
            "busbw_gbs": done.busbw_gbs,
            "wrong": done.wrong,
        }
        args = {name: value for name, value in figures.items() if value is not None}
        end_s = min(done.begin_s + done.seconds, next_s)
        yield _slice(JOBS, done.job + 1, done.number, done.begin_s, end_s, args)


def _with_next(iterations: Sequence[ExportedIteration]) -> Iterator[tuple[ExportedIteration, float]]:
    """Each iteration, and when the next of its job began: slices of a track must not overlap."""
    for job in sorted({done.job for done in iterations}):
        of_job = sorted((done for done in iterations if done.job == job), key=lambda done: done.begin_s)
        yield from zip(of_job, [*(done.begin_s for done in of_job[1:]), inf], strict=True)


def _ranks(run: ExportedRun) -> Iterator[Mapping[str, Any]]:
    """A track for each rank: iterations until the last of what it sent had landed."""
    if (times := run.rank_times) is None:
        return
    for job in run.jobs:
        of_job = times["job"] == job.number
        gpus = np.unique(times["gpu"][of_job])[:MOST_RANKS]
        pid = RANKS + job.number
        yield from _process(pid, f"ranks of job {job.name or job.number}")
        for place, gpu in enumerate(gpus.tolist()):
            yield from _thread(pid, place + 1, run.fabric.node_name(gpu), place)
            at = np.flatnonzero(of_job & (times["gpu"] == gpu))
            columns = (times[name][at].tolist() for name in ("iteration", "begin_s", "end_s"))
            rows = sorted(zip(*columns, strict=True), key=lambda row: row[1])
            nexts = [*(begin_s for _, begin_s, _ in rows[1:]), inf]
            for (number, begin_s, end_s), next_s in zip(rows, nexts, strict=True):
                yield _slice(pid, place + 1, number, begin_s, min(end_s, next_s), {})


def _slice(
    pid: int, tid: int, number: int, begin_s: float, end_s: float, args: Mapping[str, Any]
) -> Mapping[str, Any]:
    begin_us = _us(begin_s)
    return {
        "ph": "X", "name": f"iteration {number}", "cat": "iteration", "pid": pid, "tid": tid,
        "ts": begin_us, "dur": _us(end_s) - begin_us, "args": args,
    }  # fmt: skip


def _happened(run: ExportedRun) -> Iterator[Mapping[str, Any]]:
    """Instants over all tracks, and the scores of elements as counters."""
    for event in run.events:
        kind = event["kind"]
        if "t_s" not in event or kind not in INSTANTS:
            continue
        text = event.get("text") or event.get("why") or ", ".join(event.get("changes", {}))
        yield {
            "ph": "i", "name": f"{kind}: {text}", "cat": kind, "pid": HEALTH, "tid": 0, "s": "g",
            "ts": _us(event["t_s"]),
            "args": {name: value for name, value in event.items() if name not in ("kind", "t_s")},
        }  # fmt: skip
        for element, (_, score) in event.get("changes", {}).items():
            yield {
                "ph": "C", "name": f"h {element}", "pid": HEALTH, "tid": 0, "ts": _us(event["t_s"]),
                "args": {"score": score},
            }  # fmt: skip


def _counters(run: ExportedRun, links: list[int], step: int) -> Iterator[Mapping[str, Any]]:
    if run.samples is None:
        return
    t_s, queue = run.samples["t_s"].tolist(), run.samples["queue_bytes"]
    for link in links:
        name = f"queue {run.fabric.link_name(link)}"
        for i in range(0, len(t_s), step):
            waiting = {"bytes": float(np.nan_to_num(queue[i, link]))}
            yield {"ph": "C", "name": name, "pid": LINKS, "tid": 0, "ts": _us(t_s[i]), "args": waiting}


def _us(seconds: float) -> int:
    """Whole: of slices that follow each other, fractions would make some overlap by a rounding."""
    return round(seconds * 1e6)
