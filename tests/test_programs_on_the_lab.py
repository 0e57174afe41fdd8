"""Real programs on real switches: ping, iperf3, Open MPI with mpi4py, and how runs of programs end."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import railweave as rw
from railweave.framework.errors import ProgramError

pytestmark = [pytest.mark.lab, pytest.mark.untimed, pytest.mark.usefixtures("nothing_left")]

COMMAND = str(Path(sys.executable).with_name("railweave"))
SYSTEM_PYTHON = "/usr/bin/python3"
SMALL: dict[str, Any] = {"domains": 2, "rails": 2, "rate_scale": 5e-5}
RAIL_BPS = 400e9 * 5e-5
needs = {
    name: pytest.mark.skipif(shutil.which(name) is None, reason=f"{name} is not installed: make dev")
    for name in ("ping", "iperf3", "mpirun")
}


@needs["ping"]
@needs["iperf3"]
def test_any_dscp_arrives_by_the_routes_and_tcp_gets_no_more_than_a_link_carries() -> None:
    """All 64 values from the first rank to the last, and TCP on the same path: the receiver's figure lies
    below the link's rate; what it loses to another lab is not judged."""
    script = """
        if [ $RANK = 3 ]; then exec iperf3 -s -1; fi
        if [ $RANK != 0 ]; then exit 0; fi
        for dscp in $(seq 0 63); do ping -q -c1 -W3 -Q $((4 * dscp)) h1.1 | grep -o '[01] received'; done
        iperf3 -c h1-1 -t 5 -J
    """
    result = rw.run(program=["sh", "-c", script], **SMALL)
    (printed,) = [rank.output for rank in result.ranks if rank.rank == 0]
    assert printed is not None
    assert printed.count("1 received") == 64 and "0 received" not in printed
    received = json.loads(printed[printed.index("{") :])["end"]["sum_received"]["bits_per_second"]
    assert 0 < received < RAIL_BPS
    assert (result.summary.wrong, result.summary.busbw_gbs, result.summary.model_us) == (None, None, None)
    carried = max(link.bytes for link in result.links if link.kind == "r")
    assert carried > received * 5 / 8


MPI = """
import os
from array import array
from mpi4py import MPI
comm, size = MPI.COMM_WORLD, 1 << 17
rank, ranks = comm.rank, comm.size
assert (str(rank), str(ranks)) == (os.environ["RANK"], os.environ["WORLD_SIZE"])
def mark():
    with open(os.environ["RAILWEAVE_MARKS"], "a") as marks:
        marks.write("\\n")
mark()
for _ in range(2):
    total = array("f", bytes(4 * size))
    comm.Allreduce([array("f", (i % 100 + rank for i in range(size))), MPI.FLOAT], [total, MPI.FLOAT])
    assert total == array("f", (ranks * (i % 100) + ranks * (ranks - 1) // 2 for i in range(size)))
    mark()
parts = array("f", bytes(4 * size * ranks))
comm.Alltoall([array("f", [rank]) * (size * ranks), MPI.FLOAT], [parts, MPI.FLOAT])
assert parts == array("f", (source for source in range(ranks) for _ in range(size)))
mark()
"""
BUFFER = 4 << 17


@needs["mpirun"]
def test_open_mpi_computes_right_over_the_fabric_alone() -> None:
    """Two all-reduces of 512 KiB and an all-to-all of 512 KiB a pair on 4 ranks. Any all-reduce makes every
    rank send 2 (n - 1) / n of its buffer (Patarasuk and Yuan, 2009), the all-to-all n - 1 buffers."""
    if subprocess.run([SYSTEM_PYTHON, "-c", "import mpi4py"], check=False).returncode:
        pytest.skip("mpi4py is not installed; `make dev` does")
    result = rw.run(program=[SYSTEM_PYTHON, "-c", MPI], launcher="mpi", **SMALL)
    assert len(result.rows) == 4 + 1
    assert [rank.status for rank in result.ranks] == [0] * 4
    sent = {name: 0 for name in ("g0.0", "g0.1", "g1.0", "g1.1")}
    for link in result.links:
        if (source := link.name.partition("->")[0]) in sent:
            sent[source] += link.bytes
    least = 2 * (2 * 3 / 4 * BUFFER) + 3 * BUFFER
    assert min(sent.values()) > least, sent


def test_programs_keep_off_the_port_of_rocev2_where_collectives_run() -> None:
    """What is sent there never leaves the host; any other port serves, and the collective ends right."""
    send = """
import socket
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
    for port in (4791, 4792):
        try:
            sender.sendto(bytes(64), ("h1.1", port))
            print(port, "sent")
        except PermissionError:
            print(port, "dropped")
"""
    with rw.lab(**SMALL) as lab:
        printed = lab.exec("h0.0", [SYSTEM_PYTHON, "-c", send]).stdout
        assert printed == "4791 dropped\n4792 sent\n"
        assert lab.run(size="64K", iterations=2).wrong == 0


def test_a_failing_rank_is_named_and_the_result_of_others_is_kept(tmp_path: Path) -> None:
    script = "(setsid sleep 300 &); echo here; if [ $RANK = 1 ]; then exit 3; fi; trap '' TERM; sleep 300"
    with pytest.raises(ProgramError, match="rank 1 on h0-1 ended with status 3; its last lines:\nhere"):
        rw.run(program=["sh", "-c", script], out=tmp_path / "run", **SMALL)
    assert (tmp_path / "run" / "rank-1.txt").read_text() == "here\n"


@pytest.mark.usefixtures("sigint_as_at_a_terminal")
def test_ctrl_c_ends_a_program_that_ignores_it(tmp_path: Path) -> None:
    script = "trap '' INT TERM; touch $WHERE/$RANK; while true; do sleep 1; done"
    words = ["--domains", "2", "--rails", "2", "--rate-scale", "5e-5", "--fault", "none", "--ranks", "2"]
    run = subprocess.Popen(
        [COMMAND, "run", *words, "--environment", f"WHERE={tmp_path}", "--program", f'sh -c "{script}"'],
        cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    while not (tmp_path / "1").exists() and run.poll() is None:
        time.sleep(0.05)
    run.send_signal(signal.SIGINT)
    assert run.wait(30) != 0
