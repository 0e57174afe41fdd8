"""Several jobs on real switches: they never mix, and what they do to each other is measured."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import railweave as rw
from railweave.framework.results.result import RunResult

pytestmark = pytest.mark.lab

TRACE = Path(__file__).parent / "traffic" / "workloads" / "fixtures" / "pipeline_8"
"""Of 8 ranks."""
SIZE, RAIL_BPS = 256 << 10, 4e6
"""Bytes of a message, and the rate of a rail: 400 Gb/s at a rate scale of 1e-5."""


@pytest.mark.untimed
def test_four_jobs_on_32_gpus_end_right() -> None:
    """Two jobs in domains, one of them the trace of an application, and two along rails across domains: every
    element of every job is compared."""
    jobs = [
        f"ranks=domain:0 workload=chakra:{TRACE}",
        "ranks=domain:1 collective=direct-all-to-all",
        "ranks='gpu:2-3.0-3' collective=all-reduce",
        "ranks='gpu:2-3.4-7' start=100ms collective=all-reduce",
    ]
    result = rw.run(domains=4, rails=8, size="32K", iterations=1, alone=0, jobs=jobs)
    assert [job.error for job in result.jobs] == [None] * 4
    assert result.wrong == 0
    compared = {row.job: row.compared for row in result.rows}
    assert compared.pop(0) > 0 and compared == dict.fromkeys(range(1, 4), 8 * 8192)


def two_alike() -> RunResult:
    """Two equal jobs on all GPUs, whose time is that of one link."""
    job = "ranks=all share=true collective=send-recv"
    return rw.run(domains=2, rails=4, size=SIZE, iterations=4, rate_scale=1e-5, jobs=[job, job])


def test_jobs_on_the_same_gpus_share_their_links_and_mix_nothing() -> None:
    """Each of two gets half of a link, so neither is done before the link has carried nearly all of both."""
    result = two_alike()
    assert result.wrong == 0
    for one in result.jobs:
        assert one.together_us is not None and one.together_us > 1.8 * SIZE * 8 / RAIL_BPS * 1e6
        assert one.element_bytes == result.jobs[0].element_bytes
    assert result.fairness is not None and result.fairness > 0.95
    carried = sum(link.bytes for link in result.links)
    data = sum(int(own or 0) for link in result.links for own in link.job_bytes)
    assert 0.8 * carried < data < carried  # the rest are acknowledgements


@pytest.mark.quiet
def test_jobs_on_the_same_gpus_take_twice_their_time() -> None:
    for one in two_alike().jobs:
        assert one.interference is not None and 1.8 < one.interference < 2.2


SEND = """
import os, socket
port = int(os.environ["MASTER_PORT"])
if os.environ["RANK"] == "0":
    peer = socket.create_server(("", port)).accept()[0]
    while peer.recv(1 << 16):
        pass
else:
    while True:
        try:
            peer = socket.create_connection((os.environ["MASTER_ADDR"], port))
            break
        except ConnectionRefusedError:
            pass
    peer.sendall(bytes({size}))
"""


def test_what_programs_send_is_told_apart_where_they_meet_on_a_link() -> None:
    """Two programs send over rail 1 into g1.1, each from a GPU of its own: their data with headers and what
    TCP sends twice, and together what the ports have counted."""
    sizes = (100_000, 300_000)
    sources = ("gpu:1.1 gpu:0.0", "gpu:1.1 gpu:0.1")
    jobs = [
        {"ranks": ranks.split(), "share": True, "program": [sys.executable, "-c", SEND.format(size=size)]}
        for size, ranks in zip(sizes, sources, strict=True)
    ]
    result = rw.run(domains=2, rails=2, rate_scale=1e-4, alone=0, jobs=jobs)
    assert [job.error for job in result.jobs] == [None, None]
    into = next(link for link in result.links if link.name == "r1->g1.1")
    for sent, size in zip(into.job_bytes, sizes, strict=True):
        assert sent is not None and 1.0 < sent / size < 1.3
    for link in result.links:
        assert sum(int(sent or 0) for sent in link.job_bytes) == pytest.approx(link.bytes, rel=0.02, abs=1000)


BURST = """
import os, socket
if os.environ["RANK"] == "1":
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    for _ in range(40):
        sock.sendto(bytes(4000), (os.environ["MASTER_ADDR"], 9))
"""


@pytest.mark.untimed
def test_what_waits_when_its_program_ends_and_what_is_lost_is_told_apart_too() -> None:
    """A program puts 160 kB into the queue of a link that takes 0.8 s to send them, half of which the next
    link loses, and ends at once; the other job goes on for 2 s and sends nothing."""
    jobs = [
        {"ranks": ["gpu:1.1", "gpu:0.1"], "program": [sys.executable, "-c", BURST]},
        {"ranks": ["gpu:1.0"], "program": ["sleep", "2"]},
    ]
    lossy = "at=0s loss link:r1->g1.1 rate=50%"
    result = rw.run(
        domains=2, rails=2, rate_scale=4e-6, alone=0, jobs=jobs, faults=[lossy],
        measure="queue",  # trains are no job's
    )  # fmt: skip
    links = {link.name: link for link in result.links}
    assert 160_000 < links["g0.1->r1"].bytes < 200_000
    assert links["r1->g1.1"].loss > 0.1
    assert [sum(int(sent or 0) for sent in link.job_bytes) for link in result.links] == [
        link.bytes for link in result.links
    ]


@pytest.mark.untimed
def test_programs_and_collectives_run_next_to_each_other_and_one_may_fail(tmp_path: Path) -> None:
    """A program runs once alone and once in company, with its ranks on the GPUs that were chosen."""
    talk = "echo $RANK of $WORLD_SIZE on $(hostname); sleep 0.5; echo >> $RAILWEAVE_MARKS; sleep 0.5"
    result = rw.run(
        domains=3,
        rails=2,
        size="64K",
        rate_scale=2e-5,
        out=tmp_path / "run",
        jobs=[
            {"name": "train", "ranks": "domain:0-1", "share": True, "iterations": 4},
            {"name": "talk", "ranks": "gpu:2.1,0.0", "share": True, "program": ["sh", "-c", talk]},
            {"name": "broken", "ranks": "gpu:2.1", "share": True, "program": "sh -c 'echo why; exit 3'"},
        ],
    )
    train, talking, broken = result.jobs
    assert (train.error, talking.error, result.wrong) == (None, None, 0)
    assert broken.error is not None and "rank 0 on h2-1 ended with status 3" in broken.error
    assert train.interference is not None and train.element_bytes and talking.element_bytes == {}
    assert [row.iteration for row in result.of_job("talk").rows] == [0, None]
    assert sorted(rank.rank for rank in result.of_job("talk").ranks if rank.rank is not None) == [0, 1]
    assert (tmp_path / "run" / "talk-rank-0.txt").read_text() == "0 of 2 on h2-1\n"
    assert (tmp_path / "run" / "talk-rank-1.txt").read_text() == "1 of 2 on h0-0\n"
