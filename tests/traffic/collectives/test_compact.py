"""Compact schedules list the very transfers that were built one by one before: recordings of those builders'
arrays, of every collective and of ptdp."""

from __future__ import annotations

import json
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest

from railweave.framework.errors import FabricError
from railweave.framework.hookspecs import Collective
from railweave.framework.model import Fabric, PacketFormat, Schedule
from railweave.framework.parameters import resolve
from railweave.framework.registry import Registers
from railweave.topologies.rail_only import RailOnly
from railweave.topologies.ring import Ring
from railweave.topologies.torus import Torus
from railweave.traffic import plugin

REGISTERS = Registers([("traffic", plugin)])
RECORDED = Path(__file__).parent / "listed.json"
FABRICS = {
    "rails 4x4": RailOnly().build({"domains": 4, "rails": 4}),
    "rails 3x5": RailOnly().build({"domains": 3, "rails": 5}),
    "rails 8x8": RailOnly().build({"domains": 8, "rails": 8}),
    "ring 6": Ring().build({"nodes": 6}),
    "torus 2x3x2": Torus().build({"shape": "2x3x2"}),
    "torus 4x4x4": Torus().build({"shape": "4x4x4"}),
}
RAILS, RINGS, TORI = ("rails 4x4", "rails 3x5", "rails 8x8"), ("ring 6",), ("torus 2x3x2", "torus 4x4x4")
PTDP = {"tp": 2, "pp": 2, "dp": 4, "batch": 32, "interleave": 2, "microbatches": 0}
CASES: dict[str, tuple[tuple[str, ...], tuple[dict[str, object], ...]]] = {
    "all-reduce": (RAILS, ({},)),
    "pipelined-all-reduce": (RAILS, ({},)),
    "ring-all-reduce": (tuple(FABRICS), ({},)),
    "multi-ring-all-reduce": ((*RINGS, *TORI), ({},)),
    "halving-doubling-all-reduce": (tuple(FABRICS), ({},)),
    "tree-all-reduce": (tuple(FABRICS), ({},)),
    "all-gather": (RAILS, ({},)),
    "ring-all-gather": (RINGS, ({},)),
    "reduce-scatter": (RAILS, ({},)),
    "ring-reduce-scatter": (RINGS, ({},)),
    "all-to-all": (RAILS, ({}, {"pipelined": True})),
    "direct-all-to-all": (RINGS, ({},)),
    "broadcast": (RINGS, ({}, {"root": 1, "shape": "tree", "chunks": 3})),
    "send-recv": (RINGS, ({},)),
    "neighbor-exchange": (RINGS, ({}, {"barrier": "rank"})),
    "one-stage": (RINGS, ({}, {"barrier": "rank"})),
    "wrht": (RINGS, ({}, {"barrier": "rank"})),
    "optree": (RINGS, ({}, {"barrier": "rank"})),
    "ptdp": (("rails 4x4",), (PTDP, {"tp": 1, "pp": 4, "dp": 4, "batch": 16})),
}
"""Fabrics and options of every algorithm."""
FIELDS = (
    *("src", "dst", "src_offset", "dst_offset", "size", "reduce", "phase"),
    *("after_start", "after", "src_buffer", "dst_buffer"),
)


def made(name: str, options: dict[str, object]) -> Collective:
    kind = "workload" if name == "ptdp" else "collective"
    registered: Collective = REGISTERS[kind][name]
    return registered.configured(resolve(name, registered.parameters, options))


def cases() -> Iterator[tuple[str, Collective, Fabric, Schedule]]:
    """What is planned, for ranks in and out of order, and sizes that do not divide evenly."""
    for name, (fabrics, choices) in CASES.items():
        for where in fabrics:
            for options in choices:
                fabric, algorithm = FABRICS[where], made(name, options)
                ranks = np.arange(fabric.n_gpus)
                orders = [ranks] if fabrics is RINGS else [ranks, ranks[::-1]]
                for order, size in (
                    (order, size) for order in orders for size in (100, 4096 * len(ranks) + 44)
                ):
                    key = f"{name} {options} {where} from {order[0]}, {size} bytes"
                    schedule = algorithm.schedule(fabric, tuple(order.tolist()), size, "float32", "sum")
                    yield key, algorithm, fabric, schedule


def digest(listed: Schedule) -> str:
    of = sha256(repr((listed.size_bytes, listed.buffer_bytes, listed.phase_names)).encode())
    for name in FIELDS:
        of.update(np.ascontiguousarray(getattr(listed, name)).tobytes())
    return of.hexdigest()[:16]


def test_every_transfer_is_the_one_built_by_itself() -> None:
    recorded, packet = json.loads(RECORDED.read_text()), PacketFormat()
    for key, algorithm, fabric, schedule in cases():
        listed = schedule.expand()
        assert digest(listed) == recorded.pop(key), key
        form = algorithm.closed_form_s(fabric, schedule, packet)
        assert form == algorithm.closed_form_s(fabric, listed, packet), key
        for (src, dst, most), pair in zip(
            np.transpose(schedule.pairs()), np.transpose(listed.pairs()), strict=True
        ):
            assert (src, dst) == (pair[0], pair[1]) and pair[2] <= most, key
    assert not recorded


def test_an_all_reduce_of_65536_gpus_is_four_entries_a_gpu() -> None:
    fabric = RailOnly().build({"domains": 256, "rails": 256})
    schedule = made("all-reduce", {}).schedule(fabric, range(65536), 1 << 30, "float32", "sum")
    assert (schedule.n_entries, schedule.n_transfers) == (4 * 65536, 4 * 65536 * 255)
    assert len(schedule.after) + len(schedule.chained) <= 3 * schedule.n_entries
    src, _, sent = schedule.pairs()
    assert np.bincount(src, sent).tolist() == [2 * 255 * ((1 << 22) + (1 << 14))] * 65536
    with pytest.raises(FabricError, match=r"66846720 of them and \d+ dependencies"):
        schedule.expand()


@pytest.mark.parametrize("name", ["optree", "wrht", "one-stage", "neighbor-exchange"])
def test_barriers_of_a_ring_of_256_are_joins(name: str) -> None:
    """Each item reaches each other node once; a transfer waits for one join, and a join for its step."""
    fabric = Ring().build({"nodes": 256})
    schedule = made(name, {}).schedule(fabric, range(256), 256 * 16, "float32", "sum")
    assert schedule.n_transfers == 256 * 255 >= len(schedule.after) // 2
    assert np.diff(schedule.after_start)[schedule.is_transfer].max() == 1


if __name__ == "__main__":
    RECORDED.write_text(json.dumps({key: digest(of) for key, _, _, of in cases()}, indent=0) + "\n")
