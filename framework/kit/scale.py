"""Time and memory of a router for all pairs of 1,024 GPUs."""

import time
import tracemalloc
from dataclasses import dataclass

import numpy as np

from railweave.framework.errors import RailweaveError
from railweave.framework.kit.report import Outcome, Violation
from railweave.framework.kit.samples import Sample
from railweave.framework.kit.subject import Subject
from railweave.framework.model import HealthSnapshot, RouteTable
from railweave.framework.routing.batches import CHUNK, batches

HOPS = 1 << 24
"""Pairs times hops per question, and at most the pairs that a run asks about together: rings have long
paths."""

MOST_SECONDS = 120.0
MOST_BYTES = 2 << 30


@dataclass(frozen=True, slots=True)
class Figures:
    """`seconds` for the table and the paths of all pairs; `peak_bytes` on top of what was there before."""

    pairs: int
    seconds: float
    peak_bytes: int


def measured(subject: Subject, sample: Sample) -> Figures:
    """All pairs by the clock, then one part of them under tracemalloc, which slows the code it watches."""
    fabric = sample.fabric
    health = HealthSnapshot.healthy(fabric)
    chunk = _chunk(subject.ask(fabric, health))
    began, pairs = time.perf_counter(), 0
    for batch in batches(subject.ask(fabric, health), chunk=chunk):
        pairs += len(batch.src)
        if time.perf_counter() - began > MOST_SECONDS:
            break
    seconds = time.perf_counter() - began
    tracemalloc.start()
    try:
        next(batches(subject.ask(fabric, health), chunk=chunk))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    return Figures(pairs, seconds, peak)


def _chunk(table: RouteTable) -> int:
    """Pairs to ask together: by the longest of the paths from GPU 0."""
    others = np.arange(1, table.n_gpus)
    longest = int(np.diff(table.paths(np.zeros_like(others), others).hop_start).max(initial=1))
    return min(CHUNK, HOPS // longest)


def at_1024_gpus(subject: Subject, samples: list[Sample]) -> Outcome:
    """All pairs within the limits, and the figures."""
    if not samples:
        return Outcome("1,024 GPUs", "skipped", "no fabric of that size to ask for")
    wrong, texts = list[Violation](), list[str]()
    for sample in samples:
        try:
            figures = measured(subject, sample)
        except RailweaveError as error:
            wrong.append(Violation(sample.name, str(error)))
            continue
        texts.append(f"{sample.fabric.kind} {figures.seconds:.1f} s, {figures.peak_bytes / 1e6:.0f} MB")
        every = sample.fabric.n_gpus * (sample.fabric.n_gpus - 1)
        if figures.pairs < every:
            wrong.append(
                Violation(
                    sample.name, f"{figures.pairs} of {every} pairs in {figures.seconds:.0f} s: too slow"
                )
            )
        if figures.peak_bytes > MOST_BYTES:
            wrong.append(
                Violation(sample.name, f"{figures.peak_bytes / 1e9:.1f} GB for a part of the pairs: too much")
            )
    return Outcome.of("1,024 GPUs", wrong, "; ".join(texts))
