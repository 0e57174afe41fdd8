"""What studies cost: points of 256 GPUs, what each takes beyond its computation, resuming, a cluster."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self

from railweave.framework.errors import NotInstalledError
from railweave.framework.experiment.settings import LayeredSettings
from railweave.framework.processes.memory import pss_bytes
from railweave.framework.registry import Registers
from railweave.framework.studies.carrying_out import ROWS, Tally, Workers, carry_out, status
from railweave.framework.studies.ledger import Ledger, rows
from railweave.framework.studies.local import ONE_THREAD, LocalWorkers, processors
from railweave.framework.studies.points import Study
from railweave.framework.studies.sweep_file import sweep_of
from railweave.framework.studies.version import code_version

LIMIT_S, AIM_S, OF_POINTS = 1200.0, 600.0, 10_000
"""What the points of `FAULTS` should take on two processors."""
LOCAL_MS, DASK_MS = 5.0, 10.0
"""What a point may take beyond its own computation."""
FINISHED, RESUME_S, MOST_MB = 100_000, 3.0, 200.0
"""Points that a study finds again, how long that may take, and the size of their rows."""
WARM = 4
"""Points for each worker before any is measured: it loads plugins and compiles code with its first."""
TASKS = 500
"""Small points of the rows about overhead; with `quick` a tenth."""
ORDER, IN_TURN, LAST = ("local", "Dask", "Dask", "local"), 60, 8
"""Who computes the same points of 256 GPUs in turn, so that what drifts concerns both; how many each time,
and how many of its last rows are not timed, because workers run out of points then."""
SMALL = {"engine": "fluid", "topology.domains": 2, "topology.rails": 2, "size": "64K", "iterations": 1}
FAULTS = {
    "experiment": {
        "engine": "fluid",
        "topology": {"name": "rail-only", "domains": 16, "rails": 16},
        "collective": "all-reduce",
        "size": "16M",
        "iterations": 6,
        "faults": ["at=iter:2 degrade {element} to={depth}"],
    },
    "axes": {
        "kind": [
            {"label": "rail", "element": "rail:{rail}"},
            {"label": "domain", "element": "domain:{domain}"},
            {"label": "NIC", "element": "nic:{domain}.{rail}"},
            {"label": "cable", "element": "link:g{domain}.{rail}->r{rail}"},
        ],
    },
    "drawn": {
        "rail": {"from": 0, "to": 15, "draw": "whole"},
        "domain": {"from": 0, "to": 15, "draw": "whole"},
        "depth": {"from": "10%", "to": "90%", "draw": "uniform"},
    },
}
"""A drawn fault on a rail, a domain, a NIC or a cable of 256 GPUs, with feedback."""


def sweep(registers: Registers, points: int, quick: bool, progress: Callable[[str], None]) -> dict[str, Any]:
    """A row for each of the figures; `points`: how many of FAULTS are computed."""
    measured = [_points(registers, 8 if quick else points, progress)]
    small = TASKS // 10 if quick else TASKS
    progress(f"{small} small points on this machine")
    measured.append(_carried("overhead, local", _small(small), registers, LocalWorkers, LOCAL_MS))
    progress(f"{small} small points on two Dask workers")
    try:
        with TemporaryDirectory() as folder:
            nodes = Nodes(Path(folder))
            try:
                measured.append(
                    _carried("overhead, Dask", _small(small), registers, _on(nodes.address), DASK_MS)
                )
                in_turn = 12 if quick else IN_TURN
                progress(f"{in_turn} points of 256 GPUs, in turn on {', '.join(ORDER)}")
                measured.append(_dask_over_local(in_turn, registers, nodes.address))
            finally:
                nodes.end()
    except NotInstalledError as error:
        progress(str(error))
    progress("finished points")
    measured += _finished(registers, FINISHED // 100 if quick else FINISHED)
    return {"processors": processors(), "rows": measured}


def _row(what: str, figure: float, unit: str, limit: float | None, **more: Any) -> dict[str, Any]:
    return {
        "what": what,
        "figure": figure,
        "unit": unit,
        "limit": limit,
        "points": None,
        "seconds": None,
        **more,
    }


def _points(registers: Registers, points: int, progress: Callable[[str], None]) -> dict[str, Any]:
    """Seconds of OF_POINTS at the pace of some."""
    study = _faults(points)
    told = time.monotonic()

    def shown(tally: Tally) -> None:
        nonlocal told
        if time.monotonic() - told > 10:
            told = time.monotonic()
            progress(f"{tally.done} of {tally.points} points")

    progress(f"{study.count} points of 256 GPUs")
    row = _carried("10,000 points of 256 GPUs", study, registers, LocalWorkers, None, shown)
    row |= {"figure": row["seconds"] / study.count * OF_POINTS, "unit": "s", "limit": LIMIT_S}
    return row


def _faults(points: int) -> Study:
    return sweep_of(LayeredSettings("bench", {**FAULTS, "seeds": -(-points // 4)}), "faults").study


def _dask_over_local(points: int, registers: Registers, address: str) -> dict[str, Any]:
    """Points a second of two Dask workers over those of two local ones, of 256 GPUs: the same points, in
    turn."""
    study, seconds, failed = _faults(points), dict.fromkeys(ORDER, 0.0), 0
    both: dict[str, Workers] = {"local": LocalWorkers(2), "Dask": _on(address)()}
    try:
        for workers in both.values():
            _timed(replace(study, seeds=WARM), registers, workers)
        for name in ORDER:
            took_s, tally = _timed(study, registers, both[name])
            seconds[name] += took_s
            failed += sum(tally.failed.values())
    finally:
        for workers in both.values():
            workers.close()
    more = {"points": len(ORDER) * study.count, "seconds": sum(seconds.values()), "failed": failed}
    return _row("Dask over local", seconds["local"] / seconds["Dask"], "ratio", 0.9, **more)


def _timed(study: Study, registers: Registers, workers: Workers) -> tuple[float, Tally]:
    """Seconds until all rows but the LAST were there."""
    began, rows_s = time.monotonic(), list[float]()

    def note(tally: Tally) -> None:
        rows_s.append(time.monotonic() - began)

    with TemporaryDirectory() as folder:
        tally = carry_out(study, Path(folder), registers, workers, _no_lab, on_progress=note)
    return rows_s[max(0, study.count - 1 - LAST)], tally


def _small(count: int) -> Study:
    return Study("small", SMALL, seeds=count)


def _on(address: str) -> Callable[[], Workers]:
    from railweave.framework.studies.on_dask import DaskWorkers

    return lambda: DaskWorkers(address, labs=False)


def _carried(
    what: str,
    study: Study,
    registers: Registers,
    made: Callable[[], Workers],
    limit: float | None,
    on_progress: Callable[[Tally], None] = lambda tally: None,
) -> dict[str, Any]:
    """Milliseconds of two processors that a point takes beyond what its worker says; the workers are warm."""
    with TemporaryDirectory() as folder:
        workers = made()
        try:
            for name in ("warm", "measured"):
                directory = Path(folder, name)
                directory.mkdir()
                first = replace(study, seeds=-(-WARM * processors() // study.combinations))
                began, peak = time.monotonic(), _Peak()
                with peak:
                    tally = carry_out(
                        first if name == "warm" else study, directory, registers, workers, _no_lab,
                        on_progress=on_progress,
                    )  # fmt: skip
            seconds = time.monotonic() - began
        finally:
            workers.close()
        kept = [*rows(directory / ROWS, study.name, None).values()]
    beyond = (seconds * processors() - sum(row["seconds"] for row in kept)) / len(kept)
    failed = sum(tally.failed.values())
    return _row(what, 1e3 * beyond, "ms a point", limit, points=len(kept), seconds=seconds, failed=failed,
                peak_mb=peak.bytes / 1e6)  # fmt: skip


def _no_lab(*_: object) -> Any:
    raise AssertionError("no point here needs a lab")


class _Peak:
    """The most memory that this process and its children had together, sampled while the block runs."""

    EVERY_S = 0.25

    def __enter__(self) -> Self:
        self.bytes, self._over = 0, threading.Event()
        self._thread = threading.Thread(target=self._sample)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _sample(self) -> None:
        while not self._over.wait(self.EVERY_S):
            children = [
                pid for entry in Path("/proc/self/task").iterdir()
                for pid in (entry / "children").read_text().split()
            ]  # fmt: skip
            self.bytes = max(self.bytes, sum(map(pss_bytes, [str(os.getpid()), *children])))


def _finished(registers: Registers, count: int) -> Iterator[dict[str, Any]]:
    """Of a study whose points all have rows: finding that out, and `status`."""
    study = Study("finished", {**SMALL, "faults": ["at=iter:1 degrade rail:1 to=20%"]}, seeds=count)
    row = {"after_us": 1.25, "verdict": "pass", "text": "x" * 1000}  # as long as rows of six iterations
    with TemporaryDirectory() as folder:
        directory = Path(folder)
        with Ledger(directory / ROWS, study.name) as ledger:
            for point in study.points():
                who: Mapping[str, object] = {"settings": point.settings, "seed": point.seed, "repeat": 0}
                ledger.add(point.id, code_version(), True, {**who, **row})
        size_mb = (directory / ROWS).stat().st_size / 1e6
        workers = LocalWorkers()
        began = time.monotonic()
        carry_out(study, directory, registers, workers, _no_lab)
        resumed_s = time.monotonic() - began
        workers.close()
        began = time.monotonic()
        status(study, directory)
        yield _row(f"resume of {count} points", resumed_s, "s", RESUME_S, points=count, seconds=resumed_s)
        yield _row("status of them", time.monotonic() - began, "s", 1.0, points=count)
        yield _row("their rows", size_mb, "MB", MOST_MB, points=count)


NODE = """
import asyncio, sys
from distributed import Scheduler, Worker
async def run(address=None):
    where = dict(host="127.0.0.1", dashboard=False)
    async with Worker(address, nthreads=1, **where) if address else Scheduler(port=0, **where) as node:
        print(node.address, flush=True)
        await node.finished()
if __name__ == "__main__":
    asyncio.run(run(*sys.argv[1:]))
"""


class Nodes:
    """A scheduler (0) and two workers (1, 2) on loopback, each a process. Raises NotInstalledError without
    Dask."""

    def __init__(self, folder: Path) -> None:
        try:
            import distributed  # noqa: F401 - to say so before processes start
        except ImportError:
            raise NotInstalledError("Dask is not installed, so its rows are left out.") from None
        self._node = folder / "node.py"
        self._node.write_text(NODE)
        self._processes: list[subprocess.Popen[str]] = []
        self.address = ""
        self.revive()

    @property
    def pids(self) -> list[int]:
        return [process.pid for process in self._processes]

    def revive(self) -> None:
        """Start what does not run; with another scheduler, other workers."""
        if not self._processes or self._processes[0].poll() is not None:
            self.end()
            self.address = self._start()
        for place in (1, 2):
            if len(self._processes) <= place or self._processes[place].poll() is not None:
                del self._processes[place : place + 1]
                self._start(self.address, place=place)

    def _start(self, *words: str, place: int = 0) -> str:
        process = subprocess.Popen(
            [sys.executable, str(self._node), *words], cwd=self._node.parent, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env={**os.environ, **ONE_THREAD},
            start_new_session=True,  # as local workers: the kernel shares processors out among sessions
        )  # fmt: skip
        self._processes.insert(place, process)
        assert process.stdout is not None
        return process.stdout.readline().strip()

    def kill(self, place: int) -> None:
        self._processes[place].kill()
        self._processes[place].wait()

    def end(self) -> None:
        for process in self._processes[::-1]:
            process.kill()
            process.communicate()
        self._processes.clear()
