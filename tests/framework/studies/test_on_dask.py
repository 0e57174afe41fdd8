"""A real scheduler and two real workers on loopback: what is killed, and what is nevertheless there once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from railweave.framework.cli import main
from railweave.framework.errors import MachineError
from railweave.framework.registry import load_plugins
from railweave.framework.studies import on_dask
from railweave.framework.studies.computing import Row, Task
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


def _fabric(nodes: int = 4) -> str:
    import railweave as rw
    from railweave.framework.api.fabrics import exported

    return exported(rw.topology("ring", nodes=nodes), "railweave")[0]


def test_files_of_a_name_that_an_axis_fills_are_sent(
    cluster: Cluster, call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.worker()
    (tmp_path / "inner").mkdir()
    monkeypatch.chdir(tmp_path / "inner")
    for nodes in (4, 6):
        Path(f"ring{nodes}.yaml").write_text(_fabric(nodes))
    Path("some.yaml").write_text(
        "experiment: {engine: fluid, topology: 'file:ring{nodes}.yaml', size: 64K, iterations: 2}\n"
        "axes: {nodes: [4, 6]}\n"
    )
    shown = call("some.yaml", "--on", cluster.address)
    assert shown.exit_code == 0, shown.output
    assert [row["gpus"] for row in rows()] == [4, 6]


def test_two_clients_with_different_files_of_one_name_have_each_its_own(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both send theirs before either has a row; the figure is the number of GPUs in the file."""
    cluster.worker()
    clients = []
    for nodes in (4, 6):
        (tmp_path / str(nodes)).mkdir()
        (tmp_path / str(nodes) / "ring.yaml").write_text(_fabric(nodes))
        clients.append((nodes, on_dask.DaskWorkers(cluster.address, labs=False)))
    study = Study("s", {"engine": "fluid", "topology": "file:ring.yaml", "size": "64K"}, seeds=2)
    try:
        for number in range(2):
            for nodes, workers in clients:
                monkeypatch.chdir(tmp_path / str(nodes))
                point = [*study.points()][number]
                workers.submit(Task(point.id, *study.keys(point), study.written))
            for nodes, workers in clients:
                assert [row["gpus"] for _, row in workers.finished()] == [nodes]
    finally:
        for _, workers in clients:
            workers.close()


def test_short_points_are_one_task_and_what_a_worker_has_no_time_for_comes_back(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that has no time at all computes the first of a batch, so the others are handed over again."""
    cluster.worker()
    study = Study("s", SMALL.base, seeds=30)
    tasks = [Task(point.id, *study.keys(point), study.written) for point in study.points()]
    monkeypatch.setattr(on_dask, "ENOUGH_S", 0.0)
    workers = on_dask.DaskWorkers(cluster.address, labs=False)
    try:
        workers._latest_s.extend([on_dask.BATCH_S / len(tasks)] * on_dask.LATEST)
        for task in tasks:
            assert workers.free
            workers.submit(task)
        assert [len(batch.tasks) for batch in workers._batches.values()] == [len(tasks)]
        assert [identity for identity, _ in workers.finished()] == [tasks[0].id]
        monkeypatch.undo()
        others = list[str]()
        while workers.busy:
            others += [identity for identity, _ in workers.finished()]
    finally:
        workers.close()
    assert sorted(others) == sorted(task.id for task in tasks[1:])


def test_of_a_batch_only_the_point_that_workers_die_of_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that begins seed 3 is killed: once with the others, then as often as a point is tried. Dask
    takes every point that a dying worker had for the cause, and forgives none."""
    monkeypatch.setenv("DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES", "0")
    monkeypatch.setattr(on_dask, "COUNTED_EVERY_S", 0.1)
    monkeypatch.setattr(on_dask, "GONE_S", 0.3)
    cluster = Cluster(tmp_path)
    site = tmp_path / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text(
        "import os\nfrom railweave.framework.studies import dask_worker\ncomputed = dask_worker.computed\n"
        "def dies(task, registers):\n"
        "    return os.kill(os.getpid(), 9) if task.over['seed'] == 3 else computed(task, registers)\n"
        "dask_worker.computed = dies\n"
    )
    try:
        cluster.worker(environment={"PYTHONPATH": str(site)})
        workers = on_dask.DaskWorkers(cluster.address, labs=False)
        workers._latest_s.extend([on_dask.BATCH_S / 4] * on_dask.LATEST)
        study = Study("s", SMALL.base, seeds=4)
        for point in study.points():
            workers.submit(Task(point.id, *study.keys(point), study.written))
        (batch,) = workers._batches.values()
        assert len(batch.tasks) == 4
        rows = dict[str, Row]()
        while workers.busy:
            if not workers._client.nthreads():
                cluster.worker(environment={"PYTHONPATH": str(site)})
            rows.update(workers.finished())
        workers.close()
    finally:
        cluster.end()
    causes = {point.seed: rows[point.id].get("cause") for point in study.points()}
    assert causes == {1: None, 2: None, 3: "KilledWorker", 4: None}


def test_a_worker_that_dies_loses_nothing(cluster: Cluster, call: Call) -> None:
    """Killed while it computes; the other one does the rest, and each point has one row."""
    victim = cluster.worker()
    cluster.worker()
    with client_of(cluster.address, seeds=15) as client:
        victim.send_signal(signal.SIGKILL)
        assert client.wait(300) == 0
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
    workers = on_dask.DaskWorkers(cluster.address, labs=False)
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


@pytest.fixture
def bad_sites(tmp_path: Path) -> dict[str, str]:
    """PYTHONPATH of a worker without railweave, and of one with another: a package of that name in front of
    the installed one that has no framework, and other code."""
    (tmp_path / "none" / "railweave").mkdir(parents=True)
    (tmp_path / "none" / "railweave" / "__init__.py").write_text("")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "sitecustomize.py").write_text(
        "from railweave.framework.studies import version\nversion.code_version = lambda *more: '0' * 12\n"
    )
    return {kind: str(tmp_path / kind) for kind in ("none", "other")}


UNLIKE = {
    "none": "cannot run railweave: ModuleNotFoundError",
    "other": "railweave (code) is 000000000000 there",
}


@contextmanager
def client_of(address: str, *settings: str, seeds: int = 150) -> Iterator[subprocess.Popen[str]]:
    """The command in a process of its own, once it has kept some rows. `settings`: of on_dask."""
    Path("some.yaml").write_text(SWEEP.replace("seeds: 5", f"seeds: {seeds}"))
    code = [f"on_dask.{setting}" for setting in settings]
    code = [
        "import signal",
        "signal.signal(signal.SIGINT, signal.default_int_handler)",  # a shell's background job ignores it
        "from railweave.framework.studies import on_dask",
        *code,
        "from railweave.framework.cli import main",
    ]
    with subprocess.Popen(
        [sys.executable, "-c", "; ".join([*code, "main()"]), "sweep", "some.yaml", "--on", address],
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    ) as client:  # fmt: skip
        try:
            kept = Path("studies/some/rows.jsonl")
            _until(
                lambda: client.poll() is not None or (kept.exists() and kept.read_bytes().count(b"\n") > 10)
            )
            assert client.poll() is None
            yield client
        finally:
            client.kill()


def test_a_worker_of_another_version_that_joins_in_mid_study_is_named(
    cluster: Cluster, call: Call, bad_sites: dict[str, str]
) -> None:
    """What it computes would be of another version."""
    cluster.worker()
    with client_of(cluster.address) as client:
        cluster.worker(environment={"PYTHONPATH": bad_sites["other"]})
        assert client.wait(300) == 2
        assert client.stderr is not None
        errors = client.stderr.read()
    assert UNLIKE["other"] in errors and "The rows so far are kept" in errors
    assert len(rows()) >= 10 and all(row["ok"] for row in rows())


def test_a_worker_without_railweave_that_joins_in_mid_study_fails_no_point(
    cluster: Cluster, call: Call, bad_sites: dict[str, str]
) -> None:
    """Dask drops a worker that cannot read what it is to compute, and has the others compute it."""
    cluster.worker()
    with client_of(cluster.address, seeds=15) as client:
        cluster.worker(environment={"PYTHONPATH": bad_sites["none"]})
        assert client.wait(300) == 0
    assert len({row["point"] for row in rows()}) == len(rows()) == 60
    assert all(row["ok"] for row in rows())


def test_without_workers_the_client_says_so_and_goes_on_with_the_next_one(
    cluster: Cluster, call: Call
) -> None:
    victim = cluster.worker()
    with client_of(cluster.address, "COUNTED_EVERY_S = 0.1", "GONE_S = 0.3", seeds=15) as client:
        victim.kill()
        assert client.stderr is not None
        line = client.stderr.readline()
        assert f"no worker at {cluster.address}: start one (`dask worker {cluster.address}`)" in line
        cluster.worker()
        assert client.wait(300) == 0
        assert "no worker" not in client.stderr.readline()
    assert len({row["point"] for row in rows()}) == len(rows()) == 60


def test_without_workers_ctrl_c_keeps_the_rows(cluster: Cluster, call: Call) -> None:
    victim = cluster.worker()
    with client_of(cluster.address, "COUNTED_EVERY_S = 0.1", "GONE_S = 0.3") as client:
        victim.kill()
        assert client.stderr is not None
        client.stderr.readline()
        client.send_signal(signal.SIGINT)
        assert client.wait(300) == 130
        assert client.stderr.read() == (
            "railweave: interrupted. Rows are kept in studies/some/rows.jsonl; the same command goes on from "
            "there.\n"
        )
    assert len(rows()) >= 10


@pytest.mark.parametrize("noticed", [False, True], ids=["not noticed", "noticed"])
def test_whatever_the_client_does_without_its_scheduler_it_says_so(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, noticed: bool
) -> None:
    """Threads counted, and tasks submitted, right after the scheduler died, and once the client gave up."""
    monkeypatch.setattr(on_dask, "COUNTED_EVERY_S", 0.0)
    cluster.worker()
    workers = on_dask.DaskWorkers(cluster.address, labs=False)
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
    with client_of(cluster.address, seeds=12) as client:
        client.kill()
        client.wait()
    shown = call("some.yaml", "--on", cluster.address)
    assert shown.exit_code == 0, shown.output
    assert len({row["point"] for row in rows()}) == len(rows()) == 48


def test_without_its_scheduler_it_ends_and_says_so(cluster: Cluster, call: Call) -> None:
    cluster.worker()
    with client_of(cluster.address) as client:
        cluster.scheduler.kill()
        assert client.wait(300) == 2
        assert client.stderr is not None
        errors = client.stderr.read()
    assert f"the Dask scheduler {cluster.address} is gone. The rows so far are kept" in errors
    assert len(rows()) >= 10


@pytest.mark.parametrize(
    "address",
    ["tcp://127.0.0.1:1", "127.0.0.1:8786", "none.json", "tcp://127.0.0.1", "tcp://", "file://a:1",
     "empty.json", "tls://127.0.0.1:1"],
)  # fmt: skip
def test_an_address_that_is_none_or_does_not_answer(
    call: Call, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(on_dask, "ANSWERS_S", 1.0)
    Path("empty.json").write_text("{}")
    shown = call("some.yaml", "--on", address)
    assert shown.exit_code == 2, shown.output
    reason = {
        "tcp://127.0.0.1:1": "no Dask scheduler answers there",
        "empty.json": "this file has no address of a scheduler",
        "tls://127.0.0.1:1": "the certificates of the client are missing",
    }.get(address, "is neither an address such as tcp://HOST:8786 nor a scheduler file")
    assert reason in shown.stderr and not Path("studies").exists()


def test_a_scheduler_file_has_its_address(cluster: Cluster, call: Call) -> None:
    Path("scheduler.json").write_text(json.dumps({"address": cluster.address}))
    cluster.worker()
    shown = call("some.yaml", "--on", "scheduler.json", "--limit", "2")
    assert shown.exit_code == 0 and len(rows()) == 2, shown.output


def test_a_cluster_without_workers_is_named(cluster: Cluster, call: Call) -> None:
    shown = call("some.yaml", "--on", cluster.address)
    assert shown.exit_code == 2 and "has no workers. Start some" in shown.stderr


@pytest.mark.parametrize("kind", [*UNLIKE])
def test_a_worker_without_railweave_or_of_another_version_is_named(
    cluster: Cluster, call: Call, bad_sites: dict[str, str], kind: str
) -> None:
    cluster.worker(environment={"PYTHONPATH": bad_sites[kind]})
    shown = call("some.yaml", "--on", cluster.address)
    assert shown.exit_code == 2 and UNLIKE[kind] in shown.stderr, shown.output


def test_a_plugin_of_one_file_that_workers_lack_is_named(
    cluster: Cluster, call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.worker()
    (tmp_path / "mine.py").write_text("")
    monkeypatch.setenv("RAILWEAVE_PLUGINS", str(tmp_path / "mine.py"))
    shown = call("some.yaml", "--on", cluster.address)
    assert shown.exit_code == 2, shown.output
    assert "plugin file mine.py is not installed there" in shown.stderr and "(code)" not in shown.stderr


def test_labs_need_a_worker_that_may_run_them(cluster: Cluster, call: Call) -> None:
    cluster.worker()
    Path("some.yaml").write_text("experiment: {domains: 2, rails: 2}\n")
    shown = call("some.yaml", "--on", cluster.address)
    assert shown.exit_code == 2 and "--resources lab=1" in shown.stderr, shown.output
