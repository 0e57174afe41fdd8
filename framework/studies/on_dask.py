"""Points on an existing Dask cluster (extra `dask`); none is started here.

Results travel back as rows, and what arrives twice is dropped, so that it does not matter how often Dask runs
a task again. A worker that dies makes all tasks that were assigned to it suspect (distributed#5234), so few
are submitted at a time. A task of Dask's is a batch of points that take half a second together, or one that
takes longer: scheduler, worker and client need 7 ms of processor time for each, as much as a small point.
"""

import time
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple

from railweave.framework.errors import MachineError, RailweaveError
from railweave.framework.studies import dask_worker
from railweave.framework.studies.computing import Row, Task, failed
from railweave.framework.studies.dask_scheduler import connected
from railweave.framework.studies.points import files_of

if TYPE_CHECKING:
    from distributed import Future

AHEAD = 2
"""Batches for each thread of the cluster at once."""
BATCH_S, MOST_IN_BATCH = 0.5, 64
"""Seconds that the points of a batch take together, and how many they are at most."""
ENOUGH_S = 2 * BATCH_S
"""A worker that has computed for this time gives the rest of its batch back: points are not equally long."""
LATEST = 16
"""Rows whose median is what the next points are expected to take."""
ANSWERS_S = 15.0
"""A scheduler answers within this time, or is said not to."""
COUNTED_EVERY_S = 5.0
"""How often the threads of the cluster are counted."""
GONE_S = 15.0
"""A cluster without workers for this time is said to have none: a nanny starts another in 2 s, a queue takes
minutes."""
TRIES = 3
"""A point whose worker died so often fails. A worker's death is that of all it had."""
LAB = "lab"
"""The resource that a worker has 1 of if labs may run on its machine: `dask worker --resources lab=1`."""


class _PointBatch(NamedTuple):
    """Points that one task of Dask's computes; `deaths`: how many workers died that had it."""

    tasks: tuple[Task, ...]
    lab: bool
    deaths: int = 0


class DaskWorkers:
    """The workers of the scheduler at `address` (tcp://HOST:PORT, tls://...) or in a scheduler file. `labs`:
    points of this study need labs. `waits_for`: what is missing while no worker can compute, else "".

    Raises NotInstalledError without the extra, MachineError where nothing answers, a worker lacks railweave
    or a plugin, or has another version of something, or none may run labs.
    """

    runs_labs = True

    def __init__(self, address: str, *, labs: bool) -> None:
        self._address, self._labs = address, labs
        self._client, self._versions = connected(address, ANSWERS_S), dask_worker.versions()
        try:
            with self._scheduler_there():
                self._check()
        except BaseException:
            self._client.close()
            raise
        from distributed import as_completed

        self._completed = as_completed(loop=self._client.loop)
        self._batches: dict[str, _PointBatch] = {}
        self._number = 0
        self._waiting: deque[Task] = deque()
        """Points that are in no batch yet."""
        self._suspects: deque[_PointBatch] = deque()
        """Points whose workers died, of one of them or of something else: one at a time is tried again."""
        self._latest_s: deque[float] = deque(maxlen=LATEST)
        self._places: dict[str, str] = {}
        """Where workers have the files that were sent."""
        self._threads, self._counted_s = 0, -COUNTED_EVERY_S
        self._served_s = time.monotonic()
        """When there was a worker last."""
        self.waits_for = self._told = ""

    @property
    def free(self) -> bool:
        """Whether another task may be submitted. Raises MachineError where the scheduler is gone."""
        with self._scheduler_there():
            self._count()
        return len(self._batches) < self._window and len(self._waiting) < self._together

    @property
    def busy(self) -> bool:
        return bool(self._batches or self._waiting or self._suspects)

    def submit(self, task: Task, *, lab: bool = False) -> None:
        """Hand over a task; `lab`: to a worker that may run labs, one at a time. Raises MachineError where
        the scheduler is gone."""
        with self._scheduler_there():
            if lab:
                self._hand_over(_PointBatch((task,), lab))
                return
            self._waiting.append(task)
            if len(self._waiting) >= self._together:
                self._hand_over_waiting()

    def finished(self) -> Iterator[tuple[str, Row]]:
        """The point and the row of every task that has ended; waits for one, or for what changes `waits_for`.
        Raises MachineError where the scheduler is gone, or a worker came that differs."""
        rows: list[tuple[str, Row]] = []
        with self._scheduler_there():
            while not rows and self.waits_for == self._told:
                self._hand_over_waiting()
                with self._completed.thread_condition:
                    if not self._completed.has_ready():
                        self._completed.thread_condition.wait(COUNTED_EVERY_S)
                self._count()
                for future in self._completed.next_batch(block=False):
                    rows += self._ended(future)
        self._told = self.waits_for
        yield from rows

    @property
    def _window(self) -> int:
        return AHEAD * max(1, self._threads)

    @property
    def _together(self) -> int:
        """How many points the next batch has."""
        if not self._latest_s:
            return 1
        return max(1, min(MOST_IN_BATCH, int(BATCH_S / max(median(self._latest_s), BATCH_S / MOST_IN_BATCH))))

    def _count(self) -> None:
        """Count threads, now and then; and notice that no worker is left, or that one is there again."""
        now_s = time.monotonic()
        if now_s - self._counted_s < COUNTED_EVERY_S:
            return
        self._threads, self._counted_s = sum(self._client.nthreads().values()), now_s
        what, how = "no worker", f"`dask worker {self._address}`"
        labs = any(batch.lab for batch in self._batches.values())
        if labs and self._threads and not self._lab_workers():
            what, how = f"no worker with the resource {LAB}=1", f"{how[:-1]} --resources {LAB}=1`"
        elif self._threads:
            self._served_s, self.waits_for = now_s, ""
            return
        if now_s - self._served_s >= GONE_S and not self.waits_for:
            self.waits_for = (
                f"{what} at {self._address}: start one ({how}), and the study goes on; Ctrl-C ends it, and "
                "keeps the rows so far"
            )

    def _hand_over_waiting(self) -> None:
        while self._waiting and len(self._batches) < self._window:
            count = min(self._together, len(self._waiting))
            self._hand_over(_PointBatch(tuple(self._waiting.popleft() for _ in range(count)), False))
        if self._suspects and not any(batch.deaths for batch in self._batches.values()):
            self._hand_over(self._suspects.popleft())

    def _hand_over(self, batch: _PointBatch) -> None:
        tasks = [asdict(task) for task in batch.tasks]
        names = {name for task in batch.tasks for name in files_of(task.base, task.over)}
        files = {name: self._place(name) for name in names}
        self._number += 1
        # of equal keys Dask computes one; points of other clients may have other files of the same names
        key = f"railweave-{batch.tasks[0].id}-{self._number}-{self._client.id}"
        self._batches[key] = batch
        future = self._client.submit(
            dask_worker.compute, tasks, files, self._versions, ENOUGH_S, key=key, pure=False,
            resources={LAB: 1} if batch.lab else None,
        )  # fmt: skip
        self._completed.add(future)

    def _place(self, name: str) -> str:
        """Where workers have a file; it is sent to all, also to any that come later, with the first point
        that needs it."""
        if name not in self._places:
            content = Path(name).read_bytes()
            self._places[name] = dask_worker.place_of(content, name)
            self._client.register_plugin(_plugin(content, self._places[name]))
        return self._places[name]

    def _ended(self, future: "Future") -> list[tuple[str, Row]]:
        if (batch := self._batches.get(future.key)) is None:
            return []
        if future.status in ("pending", "lost"):
            # its worker died with the rows before they were fetched; Dask computes the task again
            self._completed.add(future)
            return []
        try:
            rows: list[Row] = future.result()
        except Exception as error:
            if future.status != "error":
                raise
            del self._batches[future.key]
            return self._failed(batch, error)
        del self._batches[future.key]
        self._latest_s.extend(row["seconds"] for row in rows)
        self._waiting.extendleft(reversed(batch.tasks[len(rows) :]))
        return [(task.id, row) for task, row in zip(batch.tasks, rows, strict=False)]

    def _failed(self, batch: _PointBatch, error: Exception) -> list[tuple[str, Row]]:
        """The rows of a batch that Dask gave up, once as many workers as are tried died that had it."""
        try:
            self._compare()  # points have their errors in rows, so this is one of a worker
        except MachineError as difference:
            raise MachineError(
                f"{difference} The rows so far are kept: then run the same command again."
            ) from error
        if batch.deaths + 1 < TRIES:
            suspects = (_PointBatch((task,), batch.lab, batch.deaths + 1) for task in batch.tasks)
            self._suspects.extend(suspects)
            return []
        row = failed(type(error).__name__, " ".join(str(error).split()))
        return [(task.id, row) for task in batch.tasks]

    @contextmanager
    def _scheduler_there(self) -> Iterator[None]:
        """Raises MachineError for what a call on the client raises once the scheduler is gone: which error
        depends on how far the client has noticed."""
        from distributed import CancelledError

        try:
            yield
        except RailweaveError:
            raise
        except Exception as error:
            if self._client.status == "running" and not isinstance(error, OSError | CancelledError):
                raise
            raise MachineError(
                f"the Dask scheduler {self._address} is gone. The rows so far are kept: start one and run "
                "the same command again."
            ) from error

    def close(self) -> None:
        """Forget what has not ended; the cluster stays as it is."""
        self._client.close()

    def _check(self) -> None:
        """That there are workers which are like this process, and may run labs if points need them."""
        if not self._workers():
            raise MachineError(
                f"the Dask scheduler {self._address} has no workers. Start some: `dask worker "
                f"{self._address}`."
            )
        self._compare()
        if self._labs and not self._lab_workers():
            raise MachineError(
                "points of this study need labs, and no worker may run one. Start some with `dask worker "
                f"{self._address} --resources {LAB}=1 --nthreads 1`, one on each machine."
            )

    def _compare(self) -> None:
        """Raises MachineError that names a worker which differs from this process, and in what."""
        from distributed.comm import CommClosedError

        mine = self._versions
        for address, theirs in self._client.run(dask_worker.versions, on_error="return").items():
            if isinstance(theirs, CommClosedError):
                continue  # it died meanwhile, which the scheduler need not know yet
            if isinstance(theirs, OSError) and address not in self._workers():
                continue  # it was gone
            if isinstance(theirs, BaseException):
                why = str(theirs) if type(theirs) is Exception else repr(theirs)
                raise MachineError(
                    f"the Dask worker {address} cannot run railweave: {why}. Install the same one there."
                )
            different = sorted(what for what in mine | theirs if mine.get(what) != theirs.get(what))
            files = [what for what in different if what.startswith("plugin file")]
            different = files or different  # the code's version counts them
            if different:
                listed = "; ".join(
                    f"{what} is {theirs.get(what, 'not installed')} there and "
                    f"{mine.get(what, 'not installed')} here" for what in different
                )  # fmt: skip
                raise MachineError(f"the Dask worker {address} differs: {listed}. Make them alike.")

    def _workers(self) -> Mapping[str, Any]:
        """What the scheduler says now of all its workers, by their addresses."""
        workers: Mapping[str, Any] = self._client.scheduler_info(n_workers=-1)["workers"]
        return workers

    def _lab_workers(self) -> int:
        """How many there are that may run a lab."""
        return sum(bool(worker.get("resources", {}).get(LAB)) for worker in self._workers().values())


def _plugin(content: bytes, place: str) -> Any:
    from distributed import WorkerPlugin

    class File(WorkerPlugin):  # type: ignore[misc]
        """Writes a file where a worker keeps what is its own."""

        name = place

        def setup(self, worker: Any) -> None:
            from railweave.framework.studies import dask_worker

            dask_worker.place(content, Path(worker.local_directory, place))

    return File()
