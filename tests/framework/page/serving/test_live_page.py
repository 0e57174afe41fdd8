"""The server of a run that goes on, asked over real sockets; the run is told by the test."""

from __future__ import annotations

import base64
import json
import socket
import threading
import time
import zlib
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pytest
from prometheus_client.parser import text_string_to_metric_families

from railweave.framework import api
from railweave.framework.errors import InputError
from railweave.framework.experiment.plan import Plan
from railweave.framework.model.events import (
    FaultInjected,
    IterationEnded,
    PhaseStarted,
    Progress,
    RoutesChanged,
    Sampled,
)
from railweave.framework.page.serving import app, live_page
from railweave.framework.page.serving.feed import Feed
from railweave.framework.page.serving.live_page import LivePage, followed
from tests.framework.page.serving.following import Stream, ask, get


@pytest.fixture(scope="module")
def plan() -> Plan:
    return api.load(engine="fluid", domains=2, rails=2, size="64K")


@pytest.fixture
def run(plan: Plan, tmp_path: Path) -> Iterator[tuple[str, LivePage]]:
    with followed(plan, tmp_path / "a-run") as served:
        yield served


def sample(plan: Plan, t_s: float, scale: float = 0.01) -> Sampled:
    """All links carried half of their rate in a quarter of a second and lost a packet in four; link 0 scores
    0.2, and 1000 bytes wait for it."""
    n, fabric = plan.fabric.n_links, plan.fabric
    queue, score = np.zeros(n), np.ones(n)
    queue[0], score[0] = 1000.0, 0.2
    sent = 0.5 * fabric.capacity_bps * scale * 0.25 / 8
    return Sampled(t_s, 0.25, queue, sent, np.full(n, 4.0), np.ones(n), score, np.ones(fabric.n_nodes))


def test_prometheus_scrapes_the_run_so_far(run: tuple[str, LivePage], plan: Plan) -> None:
    """Two samples of a quarter of a second, in which every link carried half of its rate of 0.01 of the
    declared one; iterations of 1.5 s and 3 s."""
    url, page = run
    page.emit(PhaseStarted("up", rate_scale=0.01))
    page.emit(IterationEnded(0, 1.5, 0, alone=True))
    for number, seconds in enumerate((1.5, 3.0)):
        page.emit(IterationEnded(number, seconds, 0))
    page.emit(FaultInjected(4.6, "at=iter:1 degrade rail:1 to=20%"))
    page.emit(RoutesChanged(4.7, 1, 3, "rail:1 1.00 -> 0.20"))
    for t_s in (0.25, 0.5):
        page.emit(sample(plan, t_s))
    status, headers, body = get(url, "metrics")
    assert (status, headers["content-type"]) == (200, "text/plain; version=0.0.4; charset=utf-8")
    found = {
        (name, *labels.values()): value
        for family in text_string_to_metric_families(body.decode())
        for name, labels, value, *_ in family.samples
    }
    link, kind = plan.fabric.link_name(0), plan.fabric.kinds[plan.fabric.link_kind[0]]
    half_a_second = 0.5 * plan.fabric.capacity_bps[0] * 0.01 * 0.5 / 8
    assert found["railweave_link_bytes_total", link, kind] == pytest.approx(half_a_second)
    assert found["railweave_link_utilisation_ratio", link, kind] == pytest.approx(0.5)
    assert found["railweave_link_queue_bytes", link, kind] == 1000
    assert found["railweave_iteration_seconds_count", "0"] == 2
    assert found["railweave_iteration_seconds_sum", "0"] == 4.5
    assert found["railweave_reroutes_total",] == found["railweave_faults_total",] == 1
    assert found["railweave_fidelity", "none"] == 1
    times = [value for (name, *_), value in found.items() if name == "nccl_collective_exec_time_microseconds"]
    assert times == [pytest.approx(2.25 * 0.01 * 1e6)]


def test_a_snapshot_then_what_follows_then_the_end(run: tuple[str, LivePage], plan: Plan) -> None:
    url, page = run
    page.emit(PhaseStarted("up", rate_scale=0.01))
    page.emit(Progress(0, 1, 2))
    page.emit(IterationEnded(0, 1.5, 0))
    status, _, body = get(url, "data.json")
    (before,) = json.loads(body)["runs"]
    assert (status, before["state"], before["rate_scale"], before["events"]) == (200, "running", 0.01, 2)
    assert before["iterations"]["seconds"] == [1.5]
    with Stream(url, before["events"]) as stream:
        page.emit(FaultInjected(1.6, "at=iter:1 degrade rail:1 to=20%"))
        page.emit(sample(plan, 2.0))
        page.end(None)
        (one, fault), (two, seen), (three, end) = stream.messages()
    assert (one, two, three) == (3, 4, 5)
    text, rail = "at=iter:1 degrade rail:1 to=20%", before["items"]["name"].index("rail:1")
    assert fault == {
        "kind": "fault", "job": 0, "t_s": 1.6, "text": text,
        "add": {"marks": {"t_s": 1.6, "kind": "fault", "text": text, "items": [rail]}},
        "set": {"end_s": 1.6, "sentence": "The run is under way: 1 of 12 iterations have ended."},
    }  # fmt: skip
    n_elements = len(before["items"]["name"]) - plan.fabric.n_links
    instant = seen["add"]["series"]
    rows = {name: base64.b64decode(instant[name]) for name in ("score", "load", "queue", "loss")}
    assert (instant["t_s"], seen["set"]["end_s"]) == (2.0, 2.0)
    # codes.py: 200 steps for 1; loss by its root; 16 ln(1 + 1000/64) = 45
    assert [rows[name][n_elements] for name in ("score", "load", "loss", "queue")] == [40, 100, 100, 45]
    assert rows["score"][n_elements + 1] == 200
    assert (end["kind"], end["data"]["runs"][0]["state"]) == ("end", "incomplete")


def test_a_page_that_was_cut_off_misses_nothing(run: tuple[str, LivePage]) -> None:
    url, page = run
    with Stream(url) as first:
        for i in range(10):
            page.emit(IterationEnded(i, 1.0, 0))
        seen = first.numbers(4)
    for i in range(10, 20):
        page.emit(IterationEnded(i, 1.0, 0))
    with Stream(url, after=0, last_id=seen[-1]) as again:
        page.end(None)
        messages = list(again.messages())
    assert seen + [number for number, _ in messages] == list(range(1, 22))
    assert [m["iteration"] for _, m in messages[:-1]] == list(range(4, 20))


def test_the_run_never_waits_for_a_page_that_does_not_read(
    run: tuple[str, LivePage], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app, "SEND_S", 0.5)
    url, page = run
    with Stream(url) as stuck:
        for i in range(1000):  # 10 MB, the text twice: more than the sockets hold
            page.emit(RoutesChanged(float(i), i, 1, "x" * 5_000))
        with Stream(url, 995) as reader:  # while the other one is stuck
            assert reader.numbers(5) == [996, 997, 998, 999, 1000]
        time.sleep(1.0)
        numbers = stuck.numbers()  # what the sockets held, and then the cut
    assert numbers == list(range(1, len(numbers) + 1)) and len(numbers) < 1000
    with Stream(url, 0, numbers[-1]) as again:
        assert again.numbers(1) == [len(numbers) + 1]


def test_a_page_too_far_behind_starts_anew(
    plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_page, "Feed", lambda: Feed(most=10))
    with followed(plan, tmp_path) as (url, page):
        for i in range(50):
            page.emit(IterationEnded(i, 1.0, 0))
        with Stream(url, 3) as late:
            assert list(late.messages()) == [(None, {"kind": "reset"})]
        (now,) = json.loads(get(url, "data.json")[2])["runs"]
        assert now["events"] == 50 and len(now["iterations"]["number"]) == 50


def test_who_is_refused(run: tuple[str, LivePage]) -> None:
    url, _ = run
    base, token = url.rsplit("/", 2)[0], url.rsplit("/", 2)[1]
    assert get(url)[0] == 200
    assert get(f"{base}/{token[:-1]}x/")[0] == 403
    assert get(f"{base}/")[0] == 403
    assert get(f"{base}/favicon.ico")[::2] == (204, b"")
    assert get(url, "data.json", Host="evil.example")[0] == 400  # DNS rebinding
    for method in ("POST", "PUT", "DELETE", "OPTIONS"):
        assert ask(method, url)[0] == 405
    for path in ("nothing.js", "../app.py", "%2e%2e/app.py", "vendored.sha256", "..%2fapp.py"):
        assert get(url, path)[0] == 404
    assert get(url, "events?after=-1")[0] == 400
    assert get(url, "events?after=" + "9" * 5000)[0] == 400


def test_every_answer_keeps_browsers_from_asking_elsewhere(run: tuple[str, LivePage]) -> None:
    url, _ = run
    for path in ("", "main.js", "page.css", "data.json", "nothing"):
        _, headers, _ = get(url, path)
        policy = headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; script-src 'self';")
        assert "http" not in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert "server" not in headers


def test_a_hundred_connections(run: tuple[str, LivePage]) -> None:
    url, page = run
    with ExitStack() as opened:
        streams = [opened.enter_context(Stream(url)) for _ in range(100)]
        assert {stream.status for stream in streams} == {200, 503}
        following = [stream for stream in streams if stream.status == 200]
        assert len(following) == app.MOST_STREAMS
        page.emit(IterationEnded(0, 1.0, 0))
        assert [stream.numbers(1) for stream in following] == [[1]] * app.MOST_STREAMS
    deadline = time.monotonic() + 20
    while True:  # there is room again once they are gone
        with Stream(url) as again:
            if again.status == 200:
                break
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_taken_port_is_named(plan: Plan, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(InputError, match=rf"port {port} of 127.0.0.1 cannot be had: .*in use"):
            with followed(plan, tmp_path, port):
                pass


def test_only_loopback_listens(run: tuple[str, LivePage]) -> None:
    port = urlsplit(run[0]).port
    with pytest.raises(ConnectionRefusedError):  # another address of this machine
        socket.create_connection(("127.0.0.2", port), timeout=5).close()


def test_pages_end_with_the_server_and_the_port_is_free_again(plan: Plan, tmp_path: Path) -> None:
    with ExitStack() as opened:
        with followed(plan, tmp_path) as (url, page):
            stream = opened.enter_context(Stream(url))
            page.emit(IterationEnded(0, 1.0, 0))
        assert [m["kind"] for _, m in stream.messages()] == ["iteration", "end"]
    assert "page server" not in [thread.name for thread in threading.enumerate()]
    with socket.create_server(("127.0.0.1", urlsplit(url).port or 0)):
        pass


def test_memory_stays_bounded_in_a_long_run(plan: Plan, tmp_path: Path) -> None:
    """What is put together carries what its parts carried, and shows the score that was last."""
    with followed(plan, tmp_path) as (url, page):
        for i in range(1, 1001):
            one = sample(plan, 0.25 * i, scale=1.0)
            page.emit(replace(one, link_score=np.full(plan.fabric.n_links, (i % 100) / 100)))
        assert len(page._samples) <= 400
        (now,) = json.loads(get(url, "data.json")[2])["runs"]
        times = now["series"]["t_s"]
        assert 100 <= len(times) <= 200 and times[-1] == 250.0
        load, score = (_rows(now["series"][name])[:, -1] for name in ("load", "score"))
        assert set(load.tolist()) == {100}  # half of the rate, all the time
        assert score.tolist() == [2 * (round(t_s / 0.25) % 100) for t_s in times]


def test_pages_start_anew_at_half_as_many_instants(run: tuple[str, LivePage], plan: Plan) -> None:
    """The snapshot, asked at once, is not the one from before."""
    url, page = run
    with Stream(url, 0) as stream:
        for i in range(1, 401):
            page.emit(sample(plan, 0.25 * i, scale=1.0))
        page.snapshot()
        page.emit(sample(plan, 100.25, scale=1.0))
        (now,) = json.loads(page.snapshot())["runs"]
        page.end(None)
        *rows, last, _ = (message for _, message in stream.messages())
    assert [row["add"]["series"]["t_s"] for row in rows] == [0.25 * i for i in range(1, 401)]
    assert last == {"kind": "reset"} and now["events"] == 401
    times = now["series"]["t_s"]
    assert len(times) <= 200 and (times[0], times[-1]) == (0.5, 100.25)
    load, queue = (_rows(now["series"][name])[:, -plan.fabric.n_links] for name in ("load", "queue"))
    assert set(load.tolist()) == {100} and set(queue.tolist()) == {45}


def test_of_a_large_fabric_links_that_turn_bad_come_into_the_picture(tmp_path: Path) -> None:
    large = api.load(engine="fluid", domains=32, rails=16, size="64K")
    n, fabric = large.fabric.n_links, large.fabric
    good, bad = np.ones(n), np.ones(n)
    bad[n - 1] = 0.3
    with followed(large, tmp_path) as (url, page), Stream(url) as stream:
        for t_s, score in ((1.0, good), (2.0, bad), (3.0, bad)):
            nothing = np.zeros(n)
            nodes = np.ones(fabric.n_nodes)
            page.emit(Sampled(t_s, 1.0, nothing, nothing, nothing, nothing, score, nodes))
        (_, first), (_, again), (number, last) = islice(stream.messages(), 3)
        assert (first["kind"], again, last["kind"]) == ("sample", {"kind": "reset"}, "sample")
        (now,) = json.loads(get(url, "data.json")[2])["runs"]
    assert now["events"] == number
    item = now["items"]["name"].index(fabric.link_name(n - 1))
    assert base64.b64decode(last["add"]["series"]["score"])[item] == 60  # 200 steps for 1
    assert len(now["items"]["name"]) == 32 + 16 + 200


def _rows(packed: dict[str, Any]) -> np.ndarray[Any, Any]:
    """(instants, items), bytes."""
    steps = np.frombuffer(zlib.decompress(base64.b64decode(packed["zlib"])), np.uint8).reshape(
        packed["shape"]
    )
    return np.cumsum(steps, axis=0, dtype=np.uint8)
