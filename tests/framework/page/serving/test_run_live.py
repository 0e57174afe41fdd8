"""`railweave run --live`, with an engine that computes: the command, its page and what stays."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from click.testing import CliRunner, Result

from railweave.framework.cli import _page, main
from railweave.framework.experiment.plan import Plan
from railweave.framework.page.serving import live_page
from railweave.framework.page.serving.live_page import LivePage
from tests.framework.page.serving.following import Stream, get

RUN = ("run", "--engine", "fluid", "--domains", "2", "--rails", "2", "--size", "64K")


def railweave(*args: str) -> Result:
    return CliRunner().invoke(main, args, prog_name="railweave")


def test_a_page_follows_the_run_to_its_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    messages: list[dict[str, Any]] = []
    urls: list[str] = []
    before = live_page.followed

    @contextmanager
    def watched(plan: Plan, path: Path, port: int) -> Iterator[tuple[str, LivePage]]:
        with before(plan, path, port) as (url, page), Stream(url) as stream:
            reader = Thread(target=lambda: messages.extend(m for _, m in stream.messages()))
            reader.start()
            yield url, page
            page_at_end.append(get(url, "data.json")[0])
        reader.join(20)
        urls.append(url)

    page_at_end: list[int] = []
    monkeypatch.setattr(live_page, "followed", watched)
    out = tmp_path / "run"
    done = railweave(*RUN, "--live", "--out", str(out))
    assert done.exit_code == 0, done.output
    assert f"live        {urls[0]}" in done.stderr.splitlines()
    lines = [json.loads(line) for line in (out / "events.jsonl").read_text().splitlines()]
    events = [m for m in messages if m["kind"] not in ("sample", "end")]
    assert [{key: m[key] for key in m if key not in ("add", "set")} for m in events] == lines
    (run,) = messages[-1]["data"]["runs"]
    assert (messages[-1]["kind"], run["state"]) == ("end", "complete")
    assert run["verdict"] == json.loads((out / "result.json").read_text())["fidelity"]["verdict"]
    assert page_at_end == [200]


def test_a_taken_port_starts_nothing_and_leaves_nothing(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = railweave(*RUN, "--live", "--port", port, "--out", str(tmp_path / "run"))
    assert done.exit_code == 2
    assert "cannot be had: Address already in use. Choose another, or 0" in done.stderr
    assert not (tmp_path / "run").exists()


def test_a_port_alone_and_missing_packages_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    done = railweave(*RUN, "--port", "0")
    assert done.exit_code == 2 and "--port is that of --live" in done.stderr
    monkeypatch.setattr(_page, "PACKAGES", ("starlette", "sse_star"))
    done = railweave(*RUN, "--live")
    assert done.exit_code == 2
    assert "--live needs sse-star, not installed here" in done.stderr and "railweave[live]" in done.stderr
