"""A real scheduler and two real workers on loopback: what is killed, and what is nevertheless there once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from railweave.framework.cli import main
from railweave.framework.errors import MachineError
from railweave.framework.registry import load_plugins
from railweave.framework.studies import on_dask
from railweave.framework.studies.computing import Task
from railweave.framework.studies.points import Study

pytest.importorskip("distributed")

SWEEP = """
experiment: {engine: fluid, domains: 2, rails: 4, size: 256K, iterations: 4}
axes:
  router: [hscore, spray]
  faults: ["at=iter:2 degrade rail:1 to=20%", "at=iter:2 degrade rail:1 to=60%"]
seeds: 5
"""
NODE = """
import asyncio, sys
from distributed import Nanny, Scheduler, Worker
async def run(what, *words):
    if what == "scheduler":
        node = Scheduler(host="127.0.0.1", port=0, dashboard=False)
    else:
        kind = {"worker": Worker, "nanny": Nanny}[what]
        more = {"resources": {"lab": 1}} if "lab" in words[1:] else {}
        node = kind(words[0], nthreads=1, host="127.0.0.1", dashboard=False, **more)
    async with node:
        print(node.address, flush=True)
        await node.finished()
if __name__ == "__main__":
    asyncio.run(run(*sys.argv[1:]))
"""


class Cluster:
    """A scheduler and workers, each a process of its own in a directory of its own."""

    def __init__(self, directory: Path) -> None:
        self._directory, self._processes = directory, list[subprocess.Popen[str]]()
        (directory / "node.py").write_text(NODE)
        self.scheduler = self._start("scheduler")
        self.address = self._said(self.scheduler)

    def worker(self, *words: str, environment: dict[str, str] | None = None) -> subprocess.Popen[str]:
        started = self._start("worker", self.address, *words, environment=environment)
        self._said(started)
        return started

    def _start(self, *words: str, environment: dict[str, str] | None = None) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, str(self._directory / "node.py"), *words], cwd=self._directory, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            env={**os.environ, "OMP_NUM_THREADS": "1", **(environment or {})},
        )  # fmt: skip
        self._processes.append(process)
        return process

    @staticmethod
    def _said(process: subprocess.Popen[str]) -> str:
        assert process.stdout is not None
        return process.stdout.readline().strip()

    def end(self) -> None:
        for process in self._processes:
            process.kill()
            process.communicate()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    started = Cluster(tmp_path)
    yield started
    started.end()


Call = Callable[..., Result]


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Call:
    monkeypatch.chdir(tmp_path)
    Path("some.yaml").write_text(SWEEP)
    registers = load_plugins()
    return lambda *words: CliRunner().invoke(main, ["sweep", *words], obj=registers, prog_name="railweave")


def rows() -> list[dict[str, object]]:
    return [json.loads(line) for line in Path("studies/some/rows.jsonl").read_text().splitlines()[1:]]


def test_a_cluster_computes_the_rows_of_this_machine(cluster: Cluster, call: Call) -> None:
    cluster.worker()
    cluster.worker()
    shown = call("some.yaml", "--on", cluster.address)
    assert shown.exit_code == 0, shown.output
    theirs = {row["point"]: row for row in rows()}
    assert len(rows()) == len(theirs) == 20
    assert call("some.yaml", "--out", "here").exit_code == 0
    ours = [json.loads(line) for line in Path("here/rows.jsonl").read_text().splitlines()[1:]]
    for row in ours:
        assert {**theirs[row["point"]], "seconds": 0} == {**row, "seconds": 0}


def test_files_are_sent(
    cluster: Cluster, call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The workers' directory has no file of that name."""
    cluster.worker()
    (tmp_path / "inner").mkdir()
    monkeypatch.chdir(tmp_path / "inner")
    Path("ring.yaml").write_text(_fabric())
    Path("some.yaml").write_text(
        "experiment: {engine: fluid, topology: 'file:ring.yaml', size: 64K, iterations: 2}\nseeds: 3\n"
    )
    shown = call("some.yaml", "--on", cluster.address)
    assert shown.exit_code == 0, shown.output
    assert len(rows()) == 3


def _fabric() -> str:
    import railweave as rw
    from railweave.framework.api.fabrics import exported

    return exported(rw.topology("ring", nodes=4), "railweave")[0]


def test_a_worker_that_dies_loses_nothing(cluster: Cluster, call: Call) -> None:
    """Killed while it computes; the other one does the rest, and each point has one row."""
    victim = cluster.worker()
    cluster.worker()
    Path("some.yaml").write_text(SWEEP.replace("seeds: 5", "seeds: 15"))
    command = [sys.executable, "-c", "from railweave.framework.cli import main; main()", "sweep", "some.yaml"]
    with subprocess.Popen([*command, "--on", cluster.address], stdout=subprocess.PIPE, text=True) as client:
        kept = Path("studies/some/rows.jsonl")
        while not (kept.exists() and kept.read_bytes().count(b"\n") > 10):
            assert client.poll() is None
            time.sleep(0.02)  # rows of another process are no event here
        victim.send_signal(signal.SIGKILL)
        assert client.wait(120) == 0
    assert len({row["point"] for row in rows()}) == len(rows()) == 60
    assert all(row["ok"] for row in rows())


SMALL = Study("small", {"engine": "fluid", "topology.domains": 2, "topology.rails": 2, "size": "64K"})


def _task() -> Task:
    point = next(SMALL.points())
    return Task(point.id, *SMALL.keys(point), SMALL.written)


def _until(happened: Callable[[], bool]) -> None:
    """Of other processes and of Dask's own thread, which offer no event."""
    while not happened():
        time.sleep(0.02)


def test_a_row_that_dies_with_its_worker_is_computed_again(cluster: Cluster) -> None:
    """The task has ended, the client knows, and its worker is killed before the row is fetched."""
    victim = cluster.worker()
    workers = on_dask.DaskWorkers(cluster.address, SMALL, labs=False)
    try:
        workers.submit(_task())
        _until(workers._completed.has_ready)
        future = workers._completed.queue.queue[0]
        assert future.status == "finished"
        victim.kill()
        _until(lambda: future.status != "finished")
        cluster.worker()
        [(identity, row)] = workers.finished()
    finally:
        workers.close()
    assert identity == _task().id
    assert "cause" not in row, row


def test_a_worker_that_dies_while_versions_are_compared_is_no_bad_worker(
    cluster: Cluster, call: Call, tmp_path: Path
) -> None:
    site = tmp_path / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text(
        "import os\nfrom railweave.framework.studies import version\n"
        "version.code_version = lambda *more: os.kill(os.getpid(), 9)\n"
    )
    victim = cluster.worker(environment={"PYTHONPATH": str(site)})
    cluster.worker()
    shown = call("some.yaml", "--on", cluster.address)
    assert shown.exit_code == 0, shown.output
    assert victim.wait() == -signal.SIGKILL
    assert len({row["point"] for row in rows()}) == len(rows()) == 20


@pytest.mark.parametrize("noticed", [False, True], ids=["not noticed", "noticed"])
def test_whatever_the_client_does_without_its_scheduler_it_says_so(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, noticed: bool
) -> None:
    """Threads counted, and tasks submitted, right after the scheduler died, and once the client gave up."""
    monkeypatch.setattr(on_dask, "COUNTED_EVERY_S", 0.0)
    cluster.worker()
    workers = on_dask.DaskWorkers(cluster.address, SMALL, labs=False)
    try:
        assert workers.free
        cluster.scheduler.kill()
        cluster.scheduler.wait()
        if noticed:
            _until(lambda: workers._client.status == "closed")
        with pytest.raises(MachineError, match=r"is gone\. The rows so far are kept"):
            _ = workers.free
        with pytest.raises(MachineError, match=r"is gone\. The rows so far are kept"):
            workers.submit(_task())
            [*workers.finished()]
    finally:
        workers.close()


def test_a_client_that_dies_goes_on(cluster: Cluster, call: Call) -> None:
    cluster.worker()
    Path("some.yaml").write_text(SWEEP.replace("seeds: 5", "seeds: 12"))
    command = [sys.executable, "-c", "from railweave.framework.cli import main; main()", "sweep", "some.yaml"]
    with subprocess.Popen([*command, "--on", cluster.address], stdout=subprocess.DEVNULL) as client:
        kept = Path("studies/some/rows.jsonl")
        while not (kept.exists() and kept.read_bytes().count(b"\n") > 10):
            assert client.poll() is None
            time.sleep(0.02)
        client.kill()
        client.wait()
    shown = call("some.yaml", "--on", cluster.address)
    assert shown.exit_code == 0, shown.output
    assert len({row["point"] for row in rows()}) == len(rows()) == 48


def test_without_its_scheduler_it_ends_and_says_so(cluster: Cluster, call: Call) -> None:
    cluster.worker()
    Path("some.yaml").write_text(SWEEP.replace("seeds: 5", "seeds: 150"))
    command = [sys.executable, "-c", "from railweave.framework.cli import main; main()", "sweep", "some.yaml"]
    with subprocess.Popen(
        [*command, "--on", cluster.address], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as client:
        kept = Path("studies/some/rows.jsonl")
        while not (kept.exists() and kept.read_bytes().count(b"\n") > 10):
            assert client.poll() is None
            time.sleep(0.02)
        cluster.scheduler.kill()
        assert client.wait(120) == 2
        assert client.stderr is not None
        assert (
            f"the Dask scheduler {cluster.address} is gone. The rows so far are kept" in client.stderr.read()
        )
    assert len(rows()) >= 10


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:1", "127.0.0.1:8786", "none.json"])
def test_an_address_that_is_none_or_does_not_answer(
    call: Call, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(on_dask, "ANSWERS_S", 1.0)
    shown = call("some.yaml", "--on", address)
    assert shown.exit_code == 2, shown.output
    answers = "no Dask scheduler answers there" if address.startswith("tcp") else "is neither an address such"
    assert answers in shown.stderr and not Path("studies").exists()


def test_a_cluster_without_workers_is_named(cluster: Cluster, call: Call) -> None:
    shown = call("some.yaml", "--on", cluster.address)
    assert shown.exit_code == 2 and "has no workers. Start some" in shown.stderr


def test_a_worker_without_railweave_or_of_another_version_is_named(
    cluster: Cluster, call: Call, tmp_path: Path
) -> None:
    """A package of that name in front of the installed one: without the framework, then with other code."""
    hidden = tmp_path / "hidden"
    (hidden / "railweave").mkdir(parents=True)
    (hidden / "railweave" / "__init__.py").write_text("")
    lacking = cluster.worker(environment={"PYTHONPATH": str(hidden)})
    shown = call("some.yaml", "--on", cluster.address)
    assert shown.exit_code == 2 and "cannot run railweave: ModuleNotFoundError" in shown.stderr, shown.output
    lacking.kill()
    lacking.wait()
    site = tmp_path / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text(
        "from railweave.framework.studies import version\nversion.code_version = lambda *more: '0' * 12\n"
    )
    cluster.worker(environment={"PYTHONPATH": str(site)})
    shown = call("some.yaml", "--on", cluster.address)
    assert shown.exit_code == 2 and "railweave (code) is 000000000000 there" in shown.stderr, shown.output


def test_labs_need_a_worker_that_may_run_them(cluster: Cluster, call: Call) -> None:
    cluster.worker()
    Path("some.yaml").write_text("experiment: {domains: 2, rails: 2}\n")
    shown = call("some.yaml", "--on", cluster.address)
    assert shown.exit_code == 2 and "--resources lab=1" in shown.stderr, shown.output
