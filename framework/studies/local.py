"""Points on all processors of this machine: a process for each, with one numeric thread."""

import os
from collections import deque
from collections.abc import Iterator
from dataclasses import asdict

from railweave.framework.errors import MachineError
from railweave.framework.model.events import ProcessDied
from railweave.framework.processes.child import ChildProcess
from railweave.framework.processes.event_loop import Watch
from railweave.framework.studies.computing import Row, Task, failed

MODULE = "railweave.framework.studies.worker"
AHEAD = 2
"""Tasks that a worker has at once: it begins the next while the row of the last is kept."""
ONE_THREAD = dict.fromkeys(
    ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1"
)
"""Libraries read these when they are imported. Workers are as many as processors."""


def processors() -> int:
    """Those that this process may use."""
    return len(os.sched_getaffinity(0))


class LocalWorkers:
    """Workers that start with the first task and end with `close`, or with this process. One that dies fails
    the task that it was at, and another takes its place."""

    waits_for = ""
    runs_labs = False  # two labs on one machine falsify each other, and workers lab and model alike

    def __init__(self, count: int | None = None) -> None:
        self._count = count or processors()
        self._watch = Watch()
        self._workers: list[_Worker] = []
        self._never_ready = 0
        """How many have died in turn that were never ready."""

    @property
    def free(self) -> bool:
        """Whether another task may be submitted."""
        return len(self._workers) < self._count or any(len(w.tasks) < AHEAD for w in self._workers)

    @property
    def busy(self) -> bool:
        return any(worker.tasks for worker in self._workers)

    def submit(self, task: Task, *, lab: bool = False) -> None:
        """Hand over a task; only where there is a `free` place."""
        idle = [worker for worker in self._workers if not worker.tasks]
        if not idle and len(self._workers) < self._count:
            self._start()
        min(self._workers, key=lambda worker: len(worker.tasks)).give(task)

    def finished(self) -> Iterator[tuple[str, Row]]:
        """The point and the row of every task that has ended, at least one; waits for it."""
        rows: list[tuple[str, Row]] = []
        while not rows:
            self._watch.wait(None)
            for worker in self._workers[:]:
                for message in worker.process.events():
                    rows += self._heard(worker, message)
        yield from rows

    def _heard(self, worker: "_Worker", message: object) -> list[tuple[str, Row]]:
        if isinstance(message, ProcessDied):
            return self._replaced(worker, message.why)
        if message == "ready":
            worker.ready, self._never_ready = True, 0
            return []
        assert isinstance(message, list | tuple)
        worker.tasks.popleft()
        point, row = message
        return [(point, row)]

    def _replaced(self, worker: "_Worker", obituary: str) -> list[tuple[str, Row]]:
        self._watch.forget(worker.process.channel)
        self._workers.remove(worker)
        worker.process.stop(0.0)
        rows: list[tuple[str, Row]] = []
        if worker.ready and worker.tasks:
            rows = [(worker.tasks.popleft().id, failed("ProcessDied", obituary))]
        elif not worker.ready:  # it was at no task
            self._never_ready += 1
            if self._never_ready > self._count:
                raise MachineError(f"no worker can start: {obituary}.")
        if worker.tasks:
            self._start()
            for task in worker.tasks:
                self._workers[-1].give(task)
        return rows

    def _start(self) -> None:
        process = ChildProcess("worker", MODULE, environment=ONE_THREAD)
        self._watch.readable(process.channel, lambda: None)
        self._workers.append(_Worker(process))

    def close(self) -> None:
        """End them; what they are at is lost."""
        for worker in self._workers:
            self._watch.forget(worker.process.channel)
            worker.process.stop(0.0)
        self._workers.clear()


class _Worker:
    """`tasks`: in the order in which it carries them out."""

    def __init__(self, process: ChildProcess) -> None:
        self.process, self.ready = process, False
        self.tasks: deque[Task] = deque()

    def give(self, task: Task) -> None:
        self.tasks.append(task)
        self.process.send(asdict(task))
