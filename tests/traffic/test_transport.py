"""The transport process on real interfaces in private namespaces: every iteration right, every failure
named."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from railweave.framework.lab.sandbox import unshare_command

SCENES = Path(__file__).with_name("scenes.py")
pytestmark = [pytest.mark.lab, pytest.mark.untimed]


def scene(name: str, *arguments: object) -> Any:
    """Run a scene as pid 1 of private namespaces; what it returned."""
    done = subprocess.run(
        [*unshare_command(), sys.executable, str(SCENES), name, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize(
    ("n", "size", "dtype", "redop", "paths"),
    [
        (2, 1 << 20, "float32", "sum", 1),
        (3, 99_999, "float16", "max", 1),
        (4, 1 << 19, "int8", "prod", 3),
        (4, 5, "int32", "min", 1),
        (2, 0, "float32", "sum", 1),
    ],
)
def test_every_iteration_is_right(n: int, size: int, dtype: str, redop: str, paths: int) -> None:
    results = scene("healthy", n, size, dtype, redop, paths)
    assert [r["iteration"] for r in results] == [0, 1, 2]
    assert [r["wrong"] for r in results] == [0, 0, 0]
    elements = size // {"float32": 4, "float16": 2, "int32": 4, "int8": 1}[dtype]
    assert {r["compared"] for r in results} == {n * elements}
    width = size // elements if elements else 1
    chunks = [((i + 1) * elements // n - i * elements // n) * width for i in range(n)]
    packets = 2 * (n - 1) * sum(max(1, -(-chunk // 1024)) for chunk in chunks) if elements else 0
    for r in results:
        assert r["packets_sent"] - r["retransmitted"] == packets
        assert sum(r["phase_seconds"]) == pytest.approx(r["seconds"])
        assert max(r["end_s"], default=r["seconds"]) == pytest.approx(r["seconds"])
        assert r["cpu_s"] >= 0
        assert 0 <= r["send_lag_s"] < 5


def test_it_reports_what_became_of_the_packets_of_each_path() -> None:
    """Half a megabyte in two chunks, each reduced and gathered: 1,024 packets from each rank in two
    iterations, in turn over three paths; nothing is lost, but for a probe of a tail where the machine is
    late."""
    found = scene("by_path", 3)
    assert found["pairs"][2] == [0, 3, 6] and sorted(zip(*found["pairs"][:2], strict=True)) == [
        (0, 1),
        (1, 0),
    ]
    known, lost, marked = found["counts"]
    assert sum(known) == sum(found["sent"]) >= 2 * 1024
    assert max(known) - min(known) <= 1 + 2 * (sum(found["sent"]) - 2 * 1024)
    assert sum(lost) <= sum(found["sent"]) - 2 * 1024 and not any(marked)
    assert found["versions"][-1] == 2


def test_one_percent_loss_is_repaired() -> None:
    """nftables' random drop on every way out of the bridge; a run without repetitions would mean it did
    nothing."""
    results = scene("lossy", 1)
    assert [r["wrong"] for r in results] == [0, 0]
    assert all(r["retransmitted"] > 0 for r in results)


@pytest.mark.parametrize(
    ("late", "double", "damage"),
    [(0.2, 0, 0), (0, 0.2, 0), (0, 0, 0.05), (0.1, 0.1, 0.02)],
    ids=["reordered", "doubled", "damaged", "all"],
)
def test_harm_on_the_way_is_repaired(late: float, double: float, damage: float) -> None:
    found = scene("harmed", late, double, damage)
    assert [r["wrong"] for r in found["results"]] == [0, 0]
    if double:
        assert sum(r["duplicates"] for r in found["results"]) > 0
    if damage:
        assert found["damaged"] > 0
        assert sum(r["retransmitted"] for r in found["results"]) > 0


def test_an_interface_that_goes_down_fails_the_run_and_names_the_rank() -> None:
    found = scene("interface_down")
    assert found["kind"] == "failed"
    assert found["ranks"] == [1]
    assert "g1" in found["why"]
    assert "is it up" in found["why"]
    assert (found["again"], found["wrong"]) == ("finished", 0)


def test_it_may_start_before_the_interfaces_are_there() -> None:
    found = scene("built_late")
    assert found["early"] is False
    assert found["results"][0]["wrong"] == 0


def test_a_namespace_that_is_not_there_is_named() -> None:
    found = scene("no_namespace")
    assert found["kind"] == "died"
    assert "/run/netns/rank0" in found["why"]
    assert found["left"] is False


def test_an_unknown_collective_fails_and_the_process_goes_on() -> None:
    found = scene("bad_orders")
    assert "all-to-none" in found["why"]
    assert found["results"][0]["wrong"] == 0


def test_it_ends_with_the_process_that_drives_it() -> None:
    assert scene("killed_parent") == {"gone": True}


def test_captured_links_are_a_pcapng_that_scapy_reads(tmp_path: Path) -> None:
    from scapy.contrib.roce import BTH
    from scapy.layers.l2 import Ether
    from scapy.utils import RawPcapNgReader

    path = tmp_path / "links.pcapng"
    found = scene("captured", path)
    assert found["dropped"] == 0
    with RawPcapNgReader(str(path)) as reader:
        packets = [(meta.ifname.decode(), Ether(frame)) for frame, meta in reader if len(frame) > 60]
    roce = [(name, packet[BTH]) for name, packet in packets if BTH in packet]
    assert {name for name, _ in roce} == {"g0->switch", "g1->switch"}
    writes = [(name, bth) for name, bth in roce if bth.opcode != 0x11]
    # each data packet passes both links
    assert len(writes) == 2 * found["results"][0]["packets_sent"]
