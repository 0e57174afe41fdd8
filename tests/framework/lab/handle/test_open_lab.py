"""`with rw.lab(...) as lab:` on real switches: every kind of fabric carries what hosts send, and an open lab
survives what is asked of it."""

from __future__ import annotations

import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import railweave as rw
from railweave.framework.errors import ExperimentError, FaultError, InputError, ProgramError
from railweave.framework.lab.handle.client import LabClient
from railweave.framework.lab.handle.iperf import received_bps
from railweave.framework.lab.interface_names import host_name
from railweave.framework.model.events import IterationEnded, RoutesChanged, RunEvent
from railweave.framework.studies.leftovers import MARK, footprint

EXAMPLES = Path(__file__).parents[4] / "examples"
SECONDS = 2.0
FABRICS = [
    {"topology": "rail-only", "domains": 2, "rails": 2, "rate_scale": 5e-5},
    {"topology": "rail-optimised", "domains": 2, "rails": 2, "rate_scale": 5e-5},
    {"topology": "ring", "nodes": 4, "rate_scale": 5e-4},
    {"topology": "torus", "shape": "2x3", "rate_scale": 5e-5},
    {"topology": "fat-tree", "k": 4, "rate_scale": 5e-5},
    {"topology": f"file:{EXAMPLES / 'unequal-domains.yaml'}", "rate_scale": 5e-5},
]


def received_pings(lab: LabClient) -> int:
    """How many pings were answered, one between every two hosts: it takes the routes of both ways."""
    hosts = [host_name(lab.plan.fabric, gpu) for gpu in range(lab.plan.fabric.n_gpus)]

    def from_host(number: int) -> int:
        pings = "".join(f"ping -c1 -W5 -q {other} & " for other in hosts[number + 1 :])
        return lab.exec(hosts[number], ["sh", "-c", f"{pings} wait"]).stdout.count(" 1 received")

    with ThreadPoolExecutor(16) as pool:
        return sum(pool.map(from_host, range(len(hosts))))


@pytest.mark.lab
@pytest.mark.untimed
@pytest.mark.parametrize("keys", FABRICS, ids=lambda keys: Path(keys["topology"]).stem)
def test_all_pairs_answer_and_tcp_gets_no_more_than_the_shaped_rate(keys: dict[str, object]) -> None:
    """TCP's payload is 97 % of a link's bytes at most; what it loses to another lab is not judged."""
    with rw.lab(**keys) as lab:
        fabric = lab.plan.fabric
        assert received_pings(lab) == fabric.n_gpus * (fabric.n_gpus - 1) // 2
        ends = [fabric.node_name(gpu) for gpu in (0, fabric.n_gpus - 1)]
        (path, *_) = lab.routes(*ends).paths
        links = [fabric.link_name(link) for link in range(fabric.n_links)]
        shaped = min(fabric.capacity_bps[links.index(hop.link)] for hop in path.hops) * lab.rate_scale
        received = received_bps(lab, *(host_name(fabric, gpu) for gpu in (0, fabric.n_gpus - 1)), SECONDS)
        assert 0 < received < shaped


@pytest.mark.lab
@pytest.mark.untimed
@pytest.mark.usefixtures("sigint_as_at_a_terminal")
def test_an_open_lab_from_the_first_request_to_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(MARK, f"open-{os.getpid()}")
    before, events = footprint(os.environ[MARK]), list[RunEvent]()
    with rw.lab(domains=2, rails=2, size="64K", rate_scale=5e-5, on_event=events.append) as lab:
        _commands(lab)
        _faults(lab, events)
        _runs(lab)
    assert footprint(os.environ[MARK]) <= before
    with pytest.raises(InputError, match="the lab is closed"):
        lab.health()


def _commands(lab: LabClient) -> None:
    done = lab.exec("h0.0", "sh -c 'cat; hostname; exit 3'", input="as given\n", env={"A": "b"})
    assert (done.returncode, done.stdout, done.stderr) == (3, "as given\nh0-0\n", "")
    script = "import os; os.write(1, bytes(66 << 20)); os.kill(os.getpid(), 11)"
    done = lab.exec("h0.0", ["python3", "-c", script])
    assert done.returncode == -11 and "2097152 bytes left out" in done.stdout[-100:]
    with pytest.raises(
        ProgramError, match=r"longer than the timeout, 0\.2 s, and was ended. Its last lines:\nno"
    ):
        lab.exec("h0.0", ["sh", "-c", "echo no; sleep 300"], timeout=0.2)
    with lab.start("h1.0", ["sh", "-c", "(setsid sleep 300 &) ; sleep 300"]):
        assert "setsid" not in lab.exec("h1.0", "ps -ef").stdout, "another process namespace"
    for command, why in (("nothing-like-it", "not a program on PATH"), ("/dev/null", "not executable")):
        with pytest.raises(InputError, match=why):
            lab.exec("h0.0", command)
    with pytest.raises(InputError, match=r"no host 'h0\.9'. Did you mean h0\.1"):
        lab.exec("h0.9", "true")


def _faults(lab: LabClient, events: list[RunEvent]) -> None:
    for reroutes, word, score, hops in ((1, "down", 0.0, 6), (2, "restore", 1.0, 2)):
        lab.fault(f"{word} rail:1")
        while sum(isinstance(event, RoutesChanged) for event in events) < reroutes:
            time.sleep(0.01)
        assert lab.health().elements["rail:1"] == score
        assert [len(path.hops) for path in lab.routes("g0.1", "g1.1").paths] == [hops]
        assert " 1 received" in lab.exec("h0.1", "ping -c1 -q h1.1").stdout
    for text, why in (("degrade rail:7 to=20%", "there is no rail:7"), ("at=iter:1 down rail:1", "at=2s")):
        with pytest.raises(FaultError, match=why):
            lab.fault(text)


def _runs(lab: LabClient) -> None:
    lab.fault("degrade rail:0 to=50%")
    seen: list[RunEvent] = []
    result = lab.run(collective="ring-all-reduce", iterations=2, on_event=seen.append)
    assert (result.wrong, len(result.rows)) == (0, 2 + 1)
    assert [fault.target for fault in result.faults] == ["rail:0"], "in force from the first iteration on"
    assert sum(isinstance(event, IterationEnded) for event in seen) == 2
    lab.fault("restore rail:0")
    again = lab.run(collective="ring-all-reduce", iterations=2)
    assert again.faults == ()
    first, second = (sum(link.bytes for link in each.links) for each in (result, again))
    assert second < 1.5 * first, "bytes are those of a run alone"
    for keys, why in (
        ({"router": "spray"}, "router: belongs to the lab"), ({"program": "true"}, "Start programs by exec"),
        ({"collective": "all-redcue"}, "all-reduce"),
    ):  # fmt: skip
        with pytest.raises((InputError, ExperimentError), match=why):
            lab.run(**keys)
    seen.clear()
    threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        lab.run(size="16M", iterations=100, on_event=seen.append)
    assert sum(isinstance(event, IterationEnded) for event in seen) < 100
    assert lab.run(iterations=1).wrong == 0
