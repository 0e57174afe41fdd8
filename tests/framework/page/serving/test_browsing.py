"""`railweave serve`: the list of runs below a directory, and each as its report."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from railweave.framework import api
from railweave.framework.cli import main
from railweave.framework.page.data.directories import page_of_run
from railweave.framework.page.data.page_data import PageData
from railweave.framework.page.serving import browsing
from railweave.framework.page.serving.server import PageServer
from tests.framework.page.serving.following import get


@pytest.fixture(scope="module")
def a_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run."""
    out = tmp_path_factory.mktemp("runs") / "finished"
    api.run(engine="fluid", domains=2, rails=2, size="64K", iterations=2, out=out)
    return out


@pytest.fixture
def runs(a_run: Path, tmp_path: Path) -> Path:
    """One that finished, one that was killed, one further down with a name that is HTML, and no runs."""
    root = tmp_path / "runs"
    shutil.copytree(a_run, root / "finished")
    shutil.copytree(a_run, root / "killed")
    for name in ("result.json", "health.npz", "report.html"):
        (root / "killed" / name).unlink()
    shutil.copytree(a_run, root / "campaign" / "<img src=x onerror=alert(1)>")
    (root / "no-run").mkdir()
    shutil.copytree(a_run, tmp_path / "elsewhere")
    (root / "link").symlink_to(tmp_path / "elsewhere")
    return root


@pytest.fixture
def url(runs: Path) -> Iterator[str]:
    with PageServer(
        browsing.browsing(runs, "token", lambda path: page_of_run(path, api.installed()))
    ) as server:
        yield f"{server.url}/token/"


def test_the_list_names_every_run_and_escapes_what_it_holds(url: str, runs: Path) -> None:
    status, headers, body = get(url)
    text = body.decode()
    assert status == 200 and "script" not in text
    assert headers["content-security-policy"].startswith("default-src 'none'")
    assert "rail-only, 4 GPUs</td><td>hscore</td><td>all-reduce</td>" in text
    assert text.count("<td>pass</td>") + text.count("<td>degraded</td>") == 2
    assert text.count("<td>no result</td>") == 1
    assert "<img" not in text and "campaign/&lt;img src=x onerror=alert(1)&gt;" in text
    assert "no-run" not in text and "link" not in text


def test_every_run_is_its_report(url: str) -> None:
    for name in ("finished", "killed", "campaign/%3Cimg%20src%3Dx%20onerror%3Dalert%281%29%3E"):
        status, headers, body = get(url, f"run/{name}")
        assert status == 200, name
        assert b'id="railweave-data"' in body and b"<img src=x" not in body
        assert "script-src 'sha256-" in body.decode()
        assert headers["content-security-policy"] == "frame-ancestors 'none'"


@pytest.mark.parametrize(
    "name",
    ["no-run", "nothing", "link", "..%2felsewhere", "../elsewhere", "finished/../../elsewhere", "%2fetc", ""],
)
def test_nothing_else_is_served(url: str, name: str) -> None:
    assert get(url, f"run/{name}")[0] == 404


def test_a_damaged_run_is_told_in_a_sentence(url: str, runs: Path) -> None:
    (runs / "finished" / "experiment.yaml").write_text("- {")
    status, _, body = get(url, "run/finished")
    assert status == 200 and b"experiment.yaml is left out, and that of the result shown: " in body
    (runs / "finished" / "result.json").unlink()
    status, headers, body = get(url, "run/finished")
    assert status == 404 and headers["content-type"].startswith("text/plain")
    assert b"experiment.yaml:1:1: an experiment is a list of `key: value` lines" in body


@pytest.mark.parametrize(
    "content", ["[", "[" * 100_000, "[]", '{"fabric": 3, "fidelity": {"verdict": {"a": 1}}}', "null"]
)
def test_results_that_hold_anything_are_listed(url: str, runs: Path, content: str) -> None:
    (runs / "finished" / "result.json").write_text(content)
    status, _, body = get(url)
    assert status == 200 and b">finished</a>" in body


def test_comparisons_and_campaigns_are_listed(runs: Path) -> None:
    row = {"name": "railweave.compare", "version": 2}
    (runs / "rows.json").write_text(json.dumps({"schema": row, "experiment": {}, "rows": []}, indent=1))
    (runs / "other.json").write_text("{}")
    read: list[Path] = []

    def page_of(path: Path) -> PageData:
        read.append(path)
        return PageData("comparison", "a", "b", made_by="c")

    with PageServer(browsing.browsing(runs, "t", page_of)) as server:
        text = get(f"{server.url}/t/")[2].decode()
        assert '<a href="run/rows.json">' in text and "<td>compare</td>" in text and "other" not in text
        assert [get(f"{server.url}/t/run/{name}.json")[0] for name in ("rows", "other")] == [200, 404]
    assert read == [(runs / "rows.json").resolve()]


def test_a_run_alone_is_served_as_its_report(runs: Path) -> None:
    app = browsing.browsing(runs / "finished", "t", lambda path: page_of_run(path, api.installed()))
    with PageServer(app) as server:
        status, _, body = get(f"{server.url}/t/")
    assert status == 200 and b'id="railweave-data"' in body


def test_many_runs_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(browsing, "MOST_RUNS", 3)
    for i in range(5):
        (tmp_path / f"{i}").mkdir()
        (tmp_path / f"{i}" / "experiment.yaml").touch()
    text = browsing.listing(tmp_path)
    assert text.count("<a href") == 3 and "and 2 earlier ones" in text


def test_the_command_serves_until_ctrl_c(runs: Path, sigint_as_at_a_terminal: None) -> None:
    command = [str(Path(sys.executable).with_name("railweave")), "serve", str(runs)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        assert get(address)[0] == 200
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=20)
    assert (process.returncode, errors) == (0, "")


def test_what_is_no_directory_is_refused(tmp_path: Path) -> None:
    done = CliRunner().invoke(main, ["serve", str(tmp_path / "nothing")], prog_name="railweave")
    assert done.exit_code == 2
    assert "nothing is no directory. Give one of a run, or one that holds some." in done.stderr
