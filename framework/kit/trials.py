"""The trials of a router that take long: time and memory for all pairs of 1,024 GPUs; a short real run."""

import multiprocessing
import subprocess
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np

from railweave.framework.errors import RailweaveError
from railweave.framework.kit.check_report import Broken, Outcome, Violation
from railweave.framework.kit.subject import Sample, Subject
from railweave.framework.model import Fabric, HealthSnapshot
from railweave.framework.routing.batches import CHUNK, batches

HOPS = 1 << 24
"""Pairs times hops per question, and at most the pairs that a run asks about together: rings have long
paths."""

FORK = multiprocessing.get_context("fork")
"""What plugins are made of need not be picklable."""
MOST_SECONDS = 120.0
"""Seconds for all pairs of 1,024 GPUs: as long as a user may wait for a lab."""
MOST_BYTES = 2 << 30
"""Memory for them."""
MOST_GPUS = 16
"""GPUs of a fabric up to which any machine brings up a lab of it."""
WITHIN_S = 300
"""Seconds for a run on a lab."""
LAST_LINES = 12
"""Lines of its output that a failure shows, the last."""


class TooSlow(RailweaveError):
    """A router has not answered in its time."""


def measure(subject: Subject, fabric: Fabric, result: Connection) -> None:
    """Send the seconds for the table and the paths of all pairs, then the bytes at the peak on top of what
    was there before, of a part of the pairs under tracemalloc, which slows the code it watches. Or an
    error."""
    try:
        for figure in _figures(subject, fabric):
            result.send(figure)
    except RailweaveError as error:
        result.send(Violation.of("", error))


def _figures(subject: Subject, fabric: Fabric) -> Iterator[float]:
    health, others = HealthSnapshot.healthy(fabric), np.arange(1, fabric.n_gpus)
    from_first = subject.ask(fabric, health).paths(np.zeros_like(others), others)
    chunk = min(CHUNK, HOPS // int(np.diff(from_first.hop_start).max(initial=1)))
    began = time.perf_counter()
    for _ in batches(subject.ask(fabric, health), chunk=chunk):
        pass
    yield time.perf_counter() - began
    tracemalloc.start()
    next(batches(subject.ask(fabric, health), chunk=chunk))
    yield tracemalloc.get_traced_memory()[1]


def measured(subject: Subject, sample: Sample) -> tuple[float, float]:
    """Seconds and bytes as `measure` sends them, of a process of its own: no router can be told to stop.

    Raises Broken where it fails, TooSlow where it takes too long for either.
    """
    ours, result = FORK.Pipe(duplex=False)
    process = FORK.Process(target=measure, args=(subject, sample.fabric, result), daemon=True)
    process.start()
    result.close()
    try:
        figures = list[float]()
        for question in ("all pairs", "a part of the pairs, with its memory watched"):
            if not ours.poll(MOST_SECONDS):
                raise TooSlow(f"{question}: no answer within {MOST_SECONDS:.0f} s: too slow")
            figure = ours.recv()
            if isinstance(figure, Violation):
                raise Broken(figure.why, figure.pair, figure.path)
            figures.append(figure)
        return figures[0], figures[1]
    except EOFError:
        raise Broken("the process that asks it has died") from None
    finally:
        process.kill()
        process.join()


def at_1024_gpus(subject: Subject, samples: list[Sample], progress: Callable[[str], None]) -> Outcome:
    """All pairs within the limits, and the figures. The first fabric on which it is too slow is the last."""
    if not samples:
        return Outcome("1,024 GPUs", "skipped", "no fabric of that size to ask for")
    wrong, texts = list[Violation](), list[str]()
    for sample in samples:
        progress(f"1,024 GPUs: {sample.name}")
        try:
            seconds, peak_bytes = measured(subject, sample)
        except TooSlow as error:
            wrong.append(Violation(sample.name, str(error)))
            break
        except Broken as error:
            wrong.append(Violation.of(sample.name, error))
            continue
        texts.append(f"{sample.fabric.kind} {seconds:.1f} s, {peak_bytes / 1e6:.0f} MB")
        if peak_bytes > MOST_BYTES:
            why = f"{peak_bytes / 1e9:.1f} GB for a part of the pairs: too much"
            wrong.append(Violation(sample.name, why))
    return Outcome.of("1,024 GPUs", wrong, "; ".join(texts))


def on_the_lab(subject: Subject, samples: Sequence[Sample]) -> Outcome:
    """Two iterations of a ring all-reduce on the first example of each kind that has up to `MOST_GPUS` GPUs;
    real packets, every element compared."""
    chosen = {s.fabric.kind: s for s in reversed(samples) if s.fabric.n_gpus <= MOST_GPUS}
    if not chosen:
        return Outcome("on the lab", "skipped", "no fabric small enough")
    wrong = []
    for sample in chosen.values():
        with tempfile.TemporaryDirectory(prefix="railweave-kit-") as directory:
            done = subprocess.run(
                command(subject, sample, Path(directory) / "run"),
                capture_output=True, text=True, timeout=WITHIN_S, check=False,
            )  # fmt: skip
        if done.returncode:
            output = "\n".join((done.stdout + done.stderr).splitlines()[-LAST_LINES:])
            wrong.append(Violation(sample.name, f"the run ends with exit code {done.returncode}:\n{output}"))
    return Outcome.of("on the lab", wrong, f"2 iterations on {', '.join(sorted(chosen))}")


def command(subject: Subject, sample: Sample, out: Path) -> list[str]:
    """The `railweave run` of one fabric."""
    options = {"topology": sample.options, "router": subject.options}
    return [
        sys.executable, "-c", "from railweave.framework.cli import main; main(prog_name='railweave')",
        "run", "--topology", sample.topology, "--router", subject.name, "--collective", "ring-all-reduce",
        "--size", "64K", "--iterations", "2", "--fault", "none", "--quiet", "--out", str(out),
        *(f"--set={kind}.{key}={value}" for kind in options for key, value in options[kind].items()),
    ]  # fmt: skip
