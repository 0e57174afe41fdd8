"""A run that goes on, as a page: a snapshot for those who come, messages for those who stay."""

import base64
import json
import secrets
import threading
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, fields, replace
from math import inf
from pathlib import Path
from typing import Any

import numpy as np
from starlette.applications import Starlette

from railweave.framework.experiment.plan import Plan
from railweave.framework.model import Fabric
from railweave.framework.model.events import IterationEnded, Printed, Progress, RunEvent, Sampled
from railweave.framework.page.data.course import Course, placed
from railweave.framework.page.data.items import Arrays, items, shown
from railweave.framework.page.data.page_data import INSTANTS, Packed, PageData, ShownJob
from railweave.framework.page.data.run_page import Known, page_of
from railweave.framework.page.data.sentence import so_far
from railweave.framework.page.data.series import series
from railweave.framework.page.exports.exported_run import ExportedRun, iteration_of, jobs_of
from railweave.framework.page.exports.prometheus import LinkMetrics, metrics_text, scores_of, used
from railweave.framework.page.serving.app import application, events_route, metrics_route, page_routes
from railweave.framework.page.serving.feed import Feed
from railweave.framework.page.serving.server import PageServer
from railweave.framework.results.directory import event_line

MOST_VALUES, SNAPSHOT_S = 1_000_000, 0.5
"""Figures of each kind that a snapshot is made of; seconds until it is made anew."""
NEWLY_WORST = 0.05
"""Difference of scores: a link that is not shown and scores this much below one that is takes its place."""


class LivePage:
    """What pages show of the run of `plan` in the directory `path`. `emit` receives its events, in the run's
    thread; `snapshot` is for the server's threads."""

    def __init__(self, plan: Plan, path: Path, feed: Feed) -> None:
        self._plan, self._feed = plan, feed
        self._known = Known(
            title=path.absolute().name,
            fabric=plan.fabric,
            engine=plan.experiment.engine.name,
            experiment=plan.yaml(),
            repeat=f"railweave run {path / 'experiment.yaml'}",
            planned=None if plan.named_jobs else plan.iterations,
            running=True,
            jobs=tuple(map(_job, plan.named_jobs)),
        )
        self._course, self._samples = Course(), list[Sampled]()
        self._events, self._done = list[dict[str, Any]](), list[dict[str, Any]]()
        self._chosen = shown(plan.fabric, None)
        self._most = 2 * max(1, min(INSTANTS, MOST_VALUES // (2 * plan.fabric.n_links)))  # they go in pairs
        self._lock, self._making = threading.Lock(), threading.Lock()
        self._made_s, self._made = -inf, ""

    def emit(self, event: RunEvent) -> None:
        """Take in an event of the run and pass it on to the pages, without waiting for any."""
        if isinstance(event, Progress | Printed):
            return
        with self._lock:
            message = self._sampled(event) if isinstance(event, Sampled) else self._happened(event)
            self._feed.publish(json.dumps(message, default=asdict))

    def application(self, token: str) -> Starlette:
        """The page, its data and its messages below /TOKEN/."""
        routes = [events_route(self._feed), metrics_route(self.metrics)]
        return application(token, [*routes, *page_routes("", lambda _: self.snapshot())])

    @property
    def last(self) -> int:
        """The number of the latest message."""
        return self._feed.last

    def end(self, page: PageData | None) -> None:
        """The run is over: pages get `page`, its report, or without one what was known of it."""
        with self._lock:
            self._known = replace(self._known, running=False)
        data = (self._so_far() if page is None else page).json()
        self._feed.publish(f'{{"kind":"end","data":{data}}}')
        self._feed.close()

    def metrics(self) -> str:
        """The run so far in Prometheus' text format."""
        with self._lock:
            scale, events, done = self._course.rate_scale, [*self._events], [*self._done]
            samples = [*self._samples]
        plan, title = self._plan, self._known.title
        iterations = tuple(iteration_of(plan, row, scale) for row in done)
        run = ExportedRun(title, plan.fabric, scale, jobs_of(plan), iterations, events, None, None)
        return metrics_text(run, _loads(plan.fabric.scaled(scale or 1.0), samples) if samples else None)

    def snapshot(self) -> str:
        """The data of the page so far, as JSON."""
        with self._making:
            if time.monotonic() - self._made_s > SNAPSHOT_S:
                self._made = self._so_far().json()
                self._made_s = time.monotonic()
            return self._made

    def _so_far(self) -> PageData:
        with self._lock:
            run = replace(
                self._known,
                course=self._course.copy(),
                lines=self._feed.last,
                chosen=self._chosen,
                samples=_arrays(self._samples) if self._samples else None,
            )
        return page_of(run)

    def _happened(self, event: RunEvent) -> dict[str, Any]:
        """The message for an event: its line of events.jsonl, and what that changes on the page."""
        line = json.loads(event_line(event))
        add = self._course.take(line)
        if line["kind"] in ("fault", "reroute"):
            self._events.append(line)
        if isinstance(event, IterationEnded) and not event.alone:
            self._done.append(self._course.last)
        if "marks" in add:
            add["marks"] = placed(add["marks"], items(self._known.fabric, self._chosen, None).name)
        return {**line, **self._changes(add)}

    def _sampled(self, sample: Sampled) -> dict[str, Any]:
        """The message for a sample, after it was kept; pages start anew once there are too many of them."""
        full = len(self._samples) >= self._most
        if full:
            earlier, later = self._samples[::2], self._samples[1::2]
            self._samples = [_together(a, b) for a, b in zip(earlier, later, strict=True)]
        self._samples.append(sample)
        if full or self._others_are_worse(sample):
            self._chosen, self._made_s = shown(self._known.fabric, _arrays(self._samples)), -inf
            return {"kind": "reset"}
        alone = {**_arrays([sample]), "t_s": np.array([sample.dt_s])}  # an interval that begins at 0
        fabric = self._known.fabric.scaled(self._course.rate_scale or 1.0)
        figures = series(fabric, self._chosen, alone)
        masks = {mask: getattr(figures, mask) for mask in ("score", "load", "queue", "loss", "paused")}
        rows = {mask: _row(packed) for mask, packed in masks.items() if packed is not None}
        return {"kind": "sample", **self._changes({"series": {"t_s": round(sample.t_s, 6), **rows}})}

    def _changes(self, add: dict[str, Any]) -> dict[str, Any]:
        """What a message adds to the page's lists and columns, and which of its fields it sets."""
        end_s = max([self._course.end_s, *(sample.t_s for sample in self._samples[-1:])])
        words = so_far(self._course.ended, self._known.planned, running=True)
        return {"add": add, "set": {"end_s": end_s, "sentence": words}}

    def _others_are_worse(self, sample: Sampled) -> bool:
        if self._chosen.all_links:
            return False
        here = sample.link_score[self._chosen.links]
        return bool(np.delete(sample.link_score, self._chosen.links).min() < here.max() - NEWLY_WORST)


def _loads(fabric: Fabric, samples: list[Sampled]) -> LinkMetrics:
    """Of all samples so far; `fabric` has emulated rates."""
    sent, last = np.sum([sample.sent_bytes for sample in samples], axis=0), samples[-1]
    return LinkMetrics(
        sent, used(fabric, sent, last.t_s), last.queue_bytes, scores_of(fabric, last.element_score)
    )


def _job(plan: Plan) -> ShownJob:
    """What is known of a job that runs."""
    gpus = tuple(map(plan.fabric.node_name, plan.ranks))
    return ShownJob(plan.job.number, plan.job.name, gpus, "running", None, None, None, None, None)


def _arrays(samples: list[Sampled]) -> Arrays:
    """Of each kind of figure (n, ...), by the names of health.npz."""
    names = [field.name for field in fields(Sampled) if field.name not in ("dt_s", "job")]
    return {name: np.array([getattr(sample, name) for sample in samples]) for name in names}


def _together(a: Sampled, b: Sampled) -> Sampled:
    """One sample of two that follow each other, with the longer queues and the later scores."""
    return Sampled(
        b.t_s,
        a.dt_s + b.dt_s,
        np.maximum(a.queue_bytes, b.queue_bytes),
        a.sent_bytes + b.sent_bytes,
        a.sent_packets + b.sent_packets,
        a.lost + b.lost,
        b.link_score,
        b.element_score,
        a.paused_s + b.paused_s,
    )


def _row(packed: Packed) -> str:
    """The bytes of a matrix of one row, in base64."""
    return base64.b64encode(zlib.decompress(base64.b64decode(packed.zlib))).decode()


@contextmanager
def followed(plan: Plan, path: Path, port: int = 0) -> Iterator[tuple[str, LivePage]]:
    """Serve the run of `plan` in the directory `path` during the block: the address, with a new token, and
    the page, which is to receive the run's events and its end.

    Raises InputError for a port that is taken.
    """
    feed, token = Feed(), secrets.token_urlsafe(16)
    page = LivePage(plan, path, feed)
    with PageServer(page.application(token), port) as server:
        try:
            yield f"{server.url}/{token}/", page
        finally:
            if not feed.closed:
                page.end(None)
