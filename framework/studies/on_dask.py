"""Points on an existing Dask cluster (extra `dask`); none is started here.

Results travel back as rows, and what arrives twice is dropped, so that it does not matter how often Dask runs
a task again. A worker that dies makes all tasks that were assigned to it suspect (distributed#5234), so few
are submitted at a time.
"""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from railweave.framework.errors import InputError, MachineError, NotInstalledError, RailweaveError
from railweave.framework.studies import dask_worker
from railweave.framework.studies.computing import Row, Task, failed
from railweave.framework.studies.points import Study, files_of

if TYPE_CHECKING:
    from distributed import Client, Future

AHEAD = 2
"""Tasks for each thread of the cluster at once."""
ANSWERS_S = 15.0
"""A scheduler answers within this time, or is said not to."""
COUNTED_EVERY_S = 5.0
"""How often the threads of the cluster are counted."""
TRIES = 3
"""A point whose worker died so often fails; others die of what was there with them."""
LAB = "lab"
"""The resource that a worker has 1 of if labs may run on its machine: `dask worker --resources lab=1`."""


class DaskWorkers:
    """The workers of the scheduler at `address` (tcp://HOST:PORT, tls://...) or in a scheduler file. `labs`:
    points of this study need labs.

    Raises NotInstalledError without the extra, MachineError where nothing answers, a worker lacks railweave
    or a plugin, or has another version of something, or none may run labs.
    """

    runs_labs = True

    def __init__(self, address: str, study: Study, *, labs: bool) -> None:
        self._address = address
        self._client = _client(address)
        try:
            with self._scheduler_there():
                self._check(labs)
                self._send_files(study)
        except BaseException:
            self._client.close()
            raise
        from distributed import as_completed

        self._completed = as_completed(loop=self._client.loop)
        self._tasks: dict[str, tuple[Task, bool, int]] = {}
        self._threads, self._counted_s = 0, -COUNTED_EVERY_S

    @property
    def free(self) -> bool:
        """Whether another task may be submitted. Raises MachineError where the scheduler is gone."""
        now_s = time.monotonic()
        if now_s - self._counted_s >= COUNTED_EVERY_S:
            with self._scheduler_there():
                self._threads, self._counted_s = sum(self._client.nthreads().values()), now_s
        return len(self._tasks) < AHEAD * max(1, self._threads)

    @property
    def busy(self) -> bool:
        return bool(self._tasks)

    def submit(self, task: Task, *, lab: bool = False) -> None:
        """Hand over a task; `lab`: to a worker that may run labs, one at a time. Raises MachineError where
        the scheduler is gone."""
        with self._scheduler_there():
            self._try(task, lab, 1)

    def _try(self, task: Task, lab: bool, number: int) -> None:
        self._tasks[task.id] = (task, lab, number)
        future = self._client.submit(
            dask_worker.compute, asdict(task), key=f"railweave-{task.id}-{number}", pure=False,
            resources={LAB: 1} if lab else None,
        )  # fmt: skip
        self._completed.add(future)

    def finished(self) -> Iterator[tuple[str, Row]]:
        """The point and the row of every task that has ended, at least one; waits for it. Raises MachineError
        where the scheduler is gone."""
        rows: list[tuple[str, Row]] = []
        with self._scheduler_there():
            while not rows:
                for future in [next(self._completed), *self._completed.next_batch(block=False)]:
                    rows += self._ended(future)
        yield from rows

    def _ended(self, future: "Future") -> list[tuple[str, Row]]:
        identity = future.key.split("-")[1]
        if identity not in self._tasks:
            return []
        if future.status in ("pending", "lost"):
            # its worker died with the row before it was fetched; Dask computes the task again
            self._completed.add(future)
            return []
        try:
            row: Row = future.result()
        except Exception as error:
            if future.status != "error":
                raise
            task, lab, number = self._tasks.pop(identity)
            name = type(error).__name__
            if name == "KilledWorker" and number < TRIES:
                self._try(task, lab, number + 1)
                return []
            return [(identity, failed(name, " ".join(str(error).split())))]
        del self._tasks[identity]
        return [(identity, row)]

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

    def _check(self, labs: bool) -> None:
        """Compare every worker with this process."""
        workers = self._workers()
        if not workers:
            raise MachineError(
                f"the Dask scheduler {self._address} has no workers. Start some: `dask worker "
                f"{self._address}`."
            )
        mine = dask_worker.versions()
        for address, theirs in self._client.run(dask_worker.versions, on_error="return").items():
            if isinstance(theirs, OSError) and address not in self._workers():
                continue  # it died meanwhile
            if isinstance(theirs, BaseException):
                why = str(theirs) if type(theirs) is Exception else repr(theirs)
                raise MachineError(
                    f"the Dask worker {address} cannot run railweave: {why}. Install the same one there."
                )
            if different := sorted(what for what in mine | theirs if mine.get(what) != theirs.get(what)):
                listed = "; ".join(
                    f"{what} is {theirs.get(what, 'not installed')} there and "
                    f"{mine.get(what, 'not installed')} here" for what in different
                )  # fmt: skip
                raise MachineError(f"the Dask worker {address} differs: {listed}. Make them alike.")
        if labs and not any(worker.get("resources", {}).get(LAB) for worker in workers.values()):
            raise MachineError(
                "points of this study need labs, and no worker may run one. Start some with `dask worker "
                f"{self._address} --resources {LAB}=1 --nthreads 1`, one on each machine."
            )

    def _workers(self) -> Mapping[str, Any]:
        """What the scheduler says now of all its workers, by their addresses."""
        workers: Mapping[str, Any] = self._client.scheduler_info(n_workers=-1)["workers"]
        return workers

    def _send_files(self, study: Study) -> None:
        """Files that points need, to all workers, also to any that come later."""
        contents = {name: Path(name).read_bytes() for name in files_of(study)}
        if contents:
            self._client.register_plugin(_plugin(contents))


def _client(address: str) -> "Client":
    try:
        from distributed import Client
    except ImportError:
        raise NotInstalledError(
            "--on needs Dask, which is not installed. `pip install 'railweave[dask]'` brings it."
        ) from None
    file = Path(address)
    where: dict[str, Any] = {"scheduler_file": address} if file.is_file() else {"address": address}
    if "://" not in address and not file.is_file():
        raise InputError(
            f"--on {address}: is neither an address such as tcp://HOST:8786 nor a scheduler file. Give one."
        )
    try:
        return Client(**where, timeout=ANSWERS_S, set_as_default=False, name="railweave")
    except (OSError, ValueError, TypeError) as error:
        why = " ".join(str(error).split()) or type(error).__name__
        raise MachineError(
            f"--on {address}: no Dask scheduler answers there ({why}). Start one: `dask scheduler`."
        ) from None


def _plugin(contents: Mapping[str, bytes]) -> Any:
    from distributed import WorkerPlugin

    class Files(WorkerPlugin):  # type: ignore[misc]
        """Writes files where a worker keeps what is its own."""

        name = f"railweave-files-{sha256(repr(sorted(contents.items())).encode()).hexdigest()[:16]}"

        def setup(self, worker: Any) -> None:
            from railweave.framework.studies import dask_worker

            dask_worker.place(contents, worker.local_directory)

    return Files()
