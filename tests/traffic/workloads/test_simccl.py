"""SimCCL's flows as a workload: who waits for whom, sizes, data in any order, and refused files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railweave.framework.errors import ExperimentError
from railweave.framework.model import Schedule
from railweave.framework.registry import Registers
from railweave.topologies.rail_only import RailOnly
from railweave.topologies.ring import Ring
from railweave.traffic import plugin
from railweave.traffic.workloads.simccl import SimCcl
from tests.fakes.transfers import transfer_of
from tests.traffic.random_execution import execute
from tests.traffic.workloads.simccl_flows import HEADER, Flow, all_to_all, ring_all_reduce, written

V2_20 = HEADER.replace("algorithm,protocol,", "")


def planned(path: str, n: int, size: int = 1 << 16, dtype: str = "int32", **options: bool) -> Schedule:
    return SimCcl(path, **options).schedule(Ring().build({"nodes": n}), range(n), size, dtype, "sum")


def check(path: str, schedule: Schedule) -> None:
    work = SimCcl(path)
    inputs = work.inputs(schedule, 3)
    expected = [work.expected(schedule, inputs, rank) for rank in range(schedule.n_ranks)]
    for seed in (1, 2):
        for after, right in zip(execute(schedule, inputs, seed), expected, strict=True):
            assert np.array_equal(after, right)


@pytest.mark.parametrize("header", [HEADER, V2_20])
@pytest.mark.parametrize(("n", "channels"), [(2, 1), (4, 4), (5, 2)])
def test_a_ring_all_reduce_has_the_steps_of_a_ring(
    n: int, channels: int, header: str, tmp_path: Path
) -> None:
    """2 (n - 1) steps of size / n / channels in every channel, each flow after the one its sender received:
    the longest chain is 2 (n - 1); every rank sends 2 (n - 1) / n of the size."""
    path = written(tmp_path / "f.csv", ring_all_reduce("TP", range(n), 4096 * n, channels), header)
    schedule = planned(path, n, 2 * (n - 1) * 4096)
    assert schedule.n_transfers == channels * n * 2 * (n - 1) and (schedule.size == 4096 // channels).all()
    assert set(np.bincount(schedule.src, schedule.size)) == {schedule.size_bytes}
    steps = [0] * schedule.n_transfers
    for i in range(schedule.n_transfers):
        transfer = transfer_of(schedule, i)
        assert len(transfer.after) <= 1
        for before in transfer.after:
            assert schedule.dst[before] == transfer.src
            assert schedule.dst_offset[before] == transfer.src_offset  # it passes on what it received
            steps[i] = steps[before] + 1
    assert np.bincount(steps).tolist() == [channels * n] * (2 * (n - 1))
    check(path, schedule)


def test_the_size_is_what_the_busiest_sends_unless_the_files_are_kept(tmp_path: Path) -> None:
    flows: list[Flow] = [("a", 0, 7, 0, 1, 3000, []), ("a", 0, 9, 1, 0, 1000, [7]), ("a", 0, 8, 0, 2, 1, [])]
    path = written(tmp_path / "f.csv", flows)
    schedule = planned(path, 4, 4 * 3001)
    assert schedule.size_bytes == 4 * 3001
    assert sorted(zip(schedule.src, schedule.size, strict=True)) == [(0, 4), (0, 12000), (1, 4000)]
    assert sorted(planned(path, 4, 4).size) == [4, 4, 4]
    assert planned(path, 4, 0).n_transfers == 0
    kept = planned(path, 4, 64, scaled=False)
    assert (kept.size_bytes, sorted(kept.size)) == (3000, [4, 1000, 3000])
    for one in (schedule, kept):
        check(path, one)


def test_a_rank_begins_a_collective_when_its_part_of_the_one_before_is_complete(tmp_path: Path) -> None:
    """Rank 3 is in the second alone and begins at once; ranks 0 to 2 after the last flow between
    them and each other rank of the first, of depth 3."""
    flows = [*ring_all_reduce("TP", range(3), 3072, 1), *all_to_all("DP", 4, 4096, first=100)]
    path = written(tmp_path / "f.csv", flows)
    schedule = planned(path, 4, scaled=False)
    assert schedule.phase_names == ("TP", "DP")
    depth = np.zeros(schedule.n_transfers, int)
    for i in range(schedule.n_transfers):
        transfer = transfer_of(schedule, i)
        depth[i] = max((depth[before] + 1 for before in transfer.after), default=0)
        if schedule.phase[i] == 0:
            continue
        before = {(int(schedule.src[b]), int(schedule.dst[b]), int(depth[b])) for b in transfer.after}
        rank = transfer.src
        around = {(rank, (rank + 1) % 3, 3), ((rank - 1) % 3, rank, 3)}
        assert before == (set() if rank == 3 else around)
    check(path, schedule)


@settings(max_examples=40)
@given(data=st.data())
def test_any_flows_are_carried_out_in_any_order(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Flows at random, parents among the earlier ones of the collective; by brute force: every flow waits for
    its parents, and, with the order of pairs, for all flows of its sender in the collective before."""
    n = data.draw(st.integers(1, 14))
    names = sorted(data.draw(st.lists(st.sampled_from("abc"), min_size=n, max_size=n)))
    ids = data.draw(st.permutations(range(n)))
    flows: list[Flow] = []
    for name, number in zip(names, ids, strict=True):
        src, dst = data.draw(st.permutations(range(5)))[:2]
        earlier = [flow[2] for flow in flows if flow[0] == name]
        parents = data.draw(st.lists(st.sampled_from(earlier), max_size=3, unique=True)) if earlier else []
        flows.append((name, 0, number, src, dst, 16 + 16 * number, parents))
    path = written(tmp_path_factory.mktemp("flows") / "f.csv", flows)
    schedule = planned(path, 5, scaled=False, dtype="int8")
    by_size = {flow[5]: flow for flow in flows}
    order = [by_size[size] for size in schedule.size.tolist()]  # sizes tell flows apart
    assert sorted(order) == sorted(flows)
    done_before: list[set[int]] = []
    for i, flow in enumerate(order):
        name, _, _, src, dst, _, parents = flow
        assert (src, dst) == (schedule.src[i], schedule.dst[i])
        done = set()
        for other in (*transfer_of(schedule, i).after, *(j for j in range(i) if order[j][3:5] == (src, dst))):
            done |= {order[other][2], *done_before[other]}
        done_before.append(done)
        earlier = [other for other in flows if other[0] < name and src in other[3:5]]
        part = {other[2] for other in earlier if other[0] == earlier[-1][0]} if earlier else set()
        assert {*parents, *part} <= done
    check(path, schedule)


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ("a,1,0,0,8,", "2: flow 1 goes from rank 0 to itself"),
        ("a,1,0,1,x,", "2: flow_size 'x' is not a whole number"),
        ("a,1,0,-1,8,", "2: dest '-1' is not a whole number"),
        ("a,1,0,1,8,9", "2: it waits for flow 9, which is not in the file"),
        ("a,1,0,1,8,1", "2: the flow waits for itself, in the cycle of lines 2"),
        ("a,1,0,1,8,2\na,2,1,0,8,1", "the flow waits for itself, in the cycle of lines "),
        ("a,1,0,1,8,\na,1,1,0,8,", "3: flow 1 stands in line 2, too"),
        ("a,1,0,1,8,\nb,2,1,0,8,1", "3: its parent in line 2 is of another collective"),
        ("a,1,0,1,8", "2: 5 fields; the header has 6"),
        ("a,1,0,8,8,", "2: rank 8 is beyond the 4 GPUs there are. Use 9 GPUs or more"),
        ("", "has no flows, only a header"),
    ],
)
def test_wrong_files_are_refused_with_their_line(row: str, why: str, tmp_path: Path) -> None:
    path = tmp_path / "f.csv"
    path.write_text(f"collective,flow_id,src,dest,flow_size,parent_flow_ids\n{row}\n")
    with pytest.raises(ExperimentError) as refusal:
        planned(str(path), 4)
    assert str(path) in str(refusal.value) and why in str(refusal.value)


def test_what_is_no_file_of_flows_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "f.csv"
    for text, why in (
        (b"", ":1: the columns collective, flow_id, src, dest, flow_size, parent_flow_ids are missing"),
        (b"\xff\xfe", "is no CSV text"),
        (
            HEADER.encode() + b"\na,0,8,4,1,0,1,0,8,8,0,1,NVLS,,\n",
            ":2: a flow of kind NVLS goes through an NVSwitch",
        ),
    ):
        path.write_bytes(text)
        with pytest.raises(ExperimentError, match=why):
            planned(str(path), 4)
    with pytest.raises(ExperimentError, match="cannot be read: No such file"):
        planned(str(tmp_path / "none.csv"), 4)
    with pytest.raises(ExperimentError, match="simccl needs a file: --workload simccl:FILE"):
        planned("", 4)


def test_it_is_a_workload_and_ranks_beyond_the_files_stay_idle(tmp_path: Path) -> None:
    work = Registers([("traffic", plugin)])["workload"]["simccl"]
    path = written(tmp_path / "f.csv", all_to_all("TP", 4, 4096))
    fabric = RailOnly().build({"domains": 2, "rails": 4})
    schedule = work.configured({"file": path, "scaled": True}).schedule(fabric, range(8), 3072, "int8", "sum")
    assert schedule.n_ranks == 8 and set(schedule.src) == {0, 1, 2, 3} and (schedule.size == 1024).all()
    assert work.busbw_factor(8) == 1.0
