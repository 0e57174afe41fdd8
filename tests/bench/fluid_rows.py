"""The experiments of `bench fluid` in full: what is run, and what it should take on 2 cores."""

from functools import partial

from railweave.bench.msccl_rings import ring_file
from railweave.framework.bench.fluid import TREE_1024, FluidCase, all_reduce, permutation

RAIL_256 = {"topology": "rail-only", "domains": 16, "rails": 16, "router": "hscore"}
RAIL_1024 = {"topology": "rail-only", "domains": 32, "rails": 32, "router": "hscore"}
TREE_432 = {"topology": "fat-tree", "k": 12, "router": "ecmp", "ranks": "256"}
POD = {"topology": "torus", "shape": "16x16x16", "router": "dor"}
EACH_64K = {"collective": "direct-all-to-all", "iterations": 1}
"""With a size of 64 KiB for every rank."""


def torus(shape: str) -> dict[str, object]:
    return {"topology": "torus", "shape": shape, "router": "dor"}


ROWS = (
    FluidCase("permutation 1024 fat-tree", TREE_1024 | permutation(), 1, peer=True),
    FluidCase("all-to-all 256 rail-only", RAIL_256 | EACH_64K | {"size": "16M"}, 1, peer=True),
    FluidCase("all-to-all 256 torus 8x8x4", torus("8x8x4") | EACH_64K | {"size": "16M"}, 1, peer=True),
    FluidCase("all-to-all 256 fat-tree", TREE_432 | EACH_64K | {"size": "16M"}, 1, peer=True),
    FluidCase("all-to-all 1024 rail-only", RAIL_1024 | EACH_64K | {"size": "64M"}, 4, 1000),
    FluidCase("all-to-all 1024 torus 8x8x16", torus("8x8x16") | EACH_64K | {"size": "64M"}, 12, 1000),
    FluidCase("permutation 4096 torus", POD | permutation(), 1.5),
    FluidCase("exponential 4096 torus", POD | permutation("exponential"), 6),
    FluidCase(
        "uneven 256 rail-only",
        RAIL_256 | {"collective": "moe-all-to-all", "size": "16M", "iterations": 1},
        8,
    ),
    FluidCase(
        "arrivals 10000 fat-tree",
        TREE_1024 | {"workload": {"name": "arrivals", "messages": 10_000}, "size": "1M", "iterations": 1},
        6,
        peer=True,
    ),
    FluidCase("all-reduce 1G 256x256 12 times", all_reduce(256, 256) | {"iterations": 12}, 4, 1500),
    FluidCase(
        "gpt-1t 4096",
        {
            "topology": "rail-only",
            "domains": 512,
            "rails": 8,
            "workload": {
                "name": "ptdp",
                "tp": 8,
                "pp": 8,
                "dp": 64,
                "batch": 512,
                "microbatches": 0,
                "compute": "h100",
            },
            "size": "1G",
            "iterations": 1,
        },
        15,
        3000,
    ),
    FluidCase(
        "slow NIC 4096 rail-only",
        all_reduce(64, 64)
        | {"size": "256M", "iterations": 6, "faults": ["at=iter:2 degrade nic:2.1 to=25%"]},
        10,
        1000,
    ),
    FluidCase("all-to-all 1024 fat-tree", TREE_1024 | EACH_64K | {"size": "64M"}, 8, 1000),
    FluidCase(
        "slow rail 256 rail-only",
        all_reduce(16, 16) | {"size": "64M", "iterations": 6, "faults": ["at=iter:2 degrade rail:1 to=20%"]},
        1,
    ),
    FluidCase(
        "MSCCL rings 16 over 24 channels",
        {"topology": "rail-only", "domains": 1, "rails": 16, "size": "64M", "iterations": 1},
        2,
        algorithm=partial(ring_file, 16, 24),
    ),
    FluidCase("default experiment", {}, 1),
)
COLD = next(row for row in ROWS if row.name == "exponential 4096 torus")
"""Large enough for machine code."""
GROWTH = {
    "all-to-all rail-only": tuple(
        FluidCase(f"{n}", RAIL_256 | EACH_64K | {"domains": n // 16, "size": n << 16}, 1)
        for n in (128, 256, 512)
    ),
    "all-reduce rail-only": tuple(
        FluidCase(f"{d * r}", all_reduce(d, r) | {"iterations": 1}, 1)
        for d, r in ((64, 128), (128, 128), (128, 256))
    ),
    "permutation torus": tuple(
        FluidCase(shape, torus(shape) | permutation(), 1) for shape in ("8x16x16", "16x16x16", "16x16x32")
    ),
}
"""Families whose GPUs double from row to row."""
