"""A run as trace-event JSON, which Perfetto (ui.perfetto.dev) and chrome://tracing open.

Source: "Trace Event Format", Google, the phases X, C, i and M. Times are those of the run's clock, in
microseconds.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from railweave.framework.page.exports.exported_run import ExportedRun

JOBS, LINKS, HEALTH = 1, 2, 3
"""Processes of the trace, a group of tracks each."""
MOST_LINKS, MOST_INSTANTS = 256, 2000
"""Links that have counters, those with the longest queues, and samples of each."""
INSTANTS = ("fault", "health", "reroute")


def trace_of(run: ExportedRun) -> str:
    """One JSON object; what it leaves out is under `otherData`."""
    links, step = _chosen(run)
    left_out = []
    if len(links) < run.fabric.n_links:
        left_out.append(f"counters of {run.fabric.n_links - len(links)} of {run.fabric.n_links} links")
    if step > 1:
        left_out.append(f"all samples but every {step}th")
    events = [*_names(run), *_iterations(run), *_happened(run), *_counters(run, links, step)]
    other = {"run": run.title, "clock": "emulated", "left_out": "; ".join(left_out)}
    return json.dumps({"traceEvents": events, "displayTimeUnit": "ms", "otherData": other}) + "\n"


def _chosen(run: ExportedRun) -> tuple[list[int], int]:
    """Which links have counters, and of how many samples one is kept."""
    samples = run.samples
    if samples is None or not len(samples["t_s"]):
        return [], 1
    longest = np.nan_to_num(samples["queue_bytes"]).max(axis=0)
    links = np.sort(np.argsort(-longest, kind="stable")[:MOST_LINKS])
    return links.tolist(), -(-len(samples["t_s"]) // MOST_INSTANTS)


def _names(run: ExportedRun) -> Iterator[Mapping[str, Any]]:
    for pid, name in ((JOBS, "jobs"), (LINKS, "links"), (HEALTH, "health")):
        yield {"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "args": {"name": name}}
    for job in run.jobs:
        title = f"{job.name or 'job'} ({job.algorithm}, {job.ranks} ranks)"
        yield {"ph": "M", "name": "thread_name", "pid": JOBS, "tid": job.number + 1, "args": {"name": title}}


def _iterations(run: ExportedRun) -> Iterator[Mapping[str, Any]]:
    for done in run.iterations:
        figures = {
            "size_bytes": done.size_bytes,
            "declared_us": done.declared_us,
            "busbw_gbs": done.busbw_gbs,
            "wrong": done.wrong,
        }
        yield {
            "ph": "X", "name": f"iteration {done.number}", "cat": "iteration", "pid": JOBS,
            "tid": done.job + 1, "ts": _us(done.begin_s), "dur": _us(done.seconds),
            "args": {name: value for name, value in figures.items() if value is not None},
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


def _us(seconds: float) -> float:
    return round(seconds * 1e6, 3)
