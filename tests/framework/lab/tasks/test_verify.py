"""Packets go where the table says, on the real lab; and where they do not, it is seen."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from railweave.framework.kit.subject import built
from railweave.framework.model.capabilities import why_unserved
from railweave.framework.registry import load_plugins
from tests.framework.lab.inside import inside

pytestmark = [pytest.mark.lab, pytest.mark.untimed]


def verified(*words: str) -> list[dict[str, Any]]:
    command = [str(Path(sys.executable).with_name("railweave")), "verify", *words, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=150, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    rows: list[dict[str, Any]] = json.loads(done.stdout)["rows"]
    assert all(row["sound"] and row["lost"] == 0 for row in rows)
    return rows


@pytest.mark.parametrize(
    ("name", "router", "hops"),
    [
        # 3 partners in the server, 4 below the same leaf, 8 over a spine
        ("dual-plane", "ecmp", 16 * (3 * 2 + 4 * 2 + 8 * 4)),
        # 16 ordered pairs in a domain, 6 on each of rails 0 and 1, the other 28 over a domain and a rail
        ("unequal-domains", "hscore", 16 * 2 + 12 * 2 + 28 * 4),
        ("unequal-domains", "spray", 16 * 2 + 12 * 2 + 28 * 4),
    ],
)
def test_fabrics_from_files(name: str, router: str, hops: int) -> None:
    file = Path(__file__).parents[4] / "examples" / f"{name}.yaml"
    fault = ["--fault", "at=0s down link:g0.0->d0"] if name == "unequal-domains" else []
    healthy, *after = verified("--topology", f"file:{file}", "--router", router, *fault)
    assert healthy["hops"] == hops and healthy["unreachable"] == 0
    # g0.2 and g0.3 are alone on their rails, so g0.0 reaches them over g1.0, g1.1 and g0.1 only: 8 links
    assert all(row["unreachable"] == 0 for row in after)


FABRICS: dict[str, list[str]] = {
    "clos": ["--planes", "2", "--t1", "2", "--fault", "at=0s down link:a0.0.0->b0.0.0"],
    "fat-tree": ["--fault", "at=0s down link:e0.0->a0.0"],
    "rail-only": ["--fault", "at=0s down rail:1"],
    "rail-optimised": ["--fault", "at=0s down spine:0"],
    "ring": ["--nodes", "16", "--collective", "ring-all-gather", "--fault", "at=0s down link:g0->g1"],
    "torus": ["--shape", "4x4", "--collective", "ring-all-reduce", "--fault", "at=0s down link:g1.1->g2.1"],
}
"""What `verify` is asked on each fabric of 16 GPUs, and a fault. A twisted torus has 128 at least, and
nothing that a torus has not."""

HOPS = {
    # 12 x 4 ordered pairs in a domain and 48 on a rail take 2 links, the other 144 take 4
    ("rail-only", "hscore"): 96 * 2 + 144 * 4,
    # k = 4: a partner below the same edge switch, two in the pod, twelve in other pods
    ("fat-tree", "ecmp"): 16 * (1 * 2 + 2 * 4 + 12 * 6),
    # and over every switch above: two paths in the pod, four between pods, a packet each
    ("fat-tree", "spray"): 16 * (1 * 2 + 2 * 2 * 4 + 12 * 4 * 6),
    # two planes: 3 partners below the same T0, 12 over two T1 in each plane
    ("clos", "spray"): 16 * 2 * (3 * 2 + 12 * 2 * 4),
    # the shorter way: distances 1 to 7 twice and 8 once from each of 16
    ("ring", "shortest"): 16 * (2 * sum(range(1, 8)) + 8),
}
"""Links that the paths of all pairs take, one packet a pair, while nothing is down."""

GIVE_UP = ("dor", "optree")
"""Routers that lose pairs to the fault, as they say."""


def allowed() -> list[tuple[str, str]]:
    """Every fabric and every router of the registers, in as few pairs as that takes: how routes become rules
    does not depend on who gave them (tests/plugins/test_contract.py has all, without a lab)."""
    registers, chosen = load_plugins(), list[tuple[str, str]]()
    for fabric in FABRICS:
        for router in reversed(list(registers["router"])):
            new = all(fabric != a for a, _ in chosen) or all(router != b for _, b in chosen)
            if new and not why_unserved(registers["router"][router], built(registers, fabric, {}).fabric):
                chosen.append((fabric, router))
    return chosen


@pytest.mark.parametrize(
    ("fabric", "router"), dict.fromkeys([*allowed(), ("fat-tree", "spray"), ("clos", "spray")])
)
def test_every_router_and_every_fabric(fabric: str, router: str) -> None:
    """Packet by packet as the table says, healthy and, where a fault can be survived, after it."""
    assert set(load_plugins()["topology"]) == {*FABRICS, "twisted-torus", "file"}
    rows = verified("--topology", fabric, "--router", router, *FABRICS[fabric])
    assert rows[0]["unreachable"] == 0 and rows[0]["packets"] >= rows[0]["pairs"] > 0
    assert rows[0]["hops"] == HOPS.get((fabric, router), rows[0]["hops"])
    if router not in GIVE_UP:
        assert rows[-1]["unreachable"] == 0


def test_an_optical_switch_lost_and_restored() -> None:
    """4x4x4, all-to-all: 64 x 63 pairs; dimension order takes 3 x 64 x 64 = 12,288 hops, 32 on each of 384
    links (the optimum of the TPUv4 paper's torus). Losing X:0,0 takes one cable away."""
    healthy, lost, restored = verified(
        "--topology", "torus", "--router", "wfr", "--collective", "ring-all-reduce",
        "--fault", "at=0s down ocs:X:0,0", "--fault", "at=0s up ocs:X:0,0",
    )  # fmt: skip
    assert healthy["pairs"] == 4032 and healthy["hops"] == restored["hops"] == 12288
    assert set(healthy["counted"].values()) == set(restored["counted"].values()) == {32}
    assert lost["hops"] >= 12288 and lost["unreachable"] == 0


def test_a_dead_rail_is_left_by_every_pair() -> None:
    before, after = verified("--fault", "at=0s down rail:1")
    assert before["unreachable"] == after["unreachable"] == 0
    assert after["hops"] > before["hops"]


def test_a_broken_rule_is_found_and_named() -> None:
    found = inside("sabotage")
    assert found["before"] == [True, 12, 4 * 2 * 2 + 4 * 4]
    assert not found["after"] and found["lost"] > 0
    assert "r0" in found["link"] or "r0" in found["hop"]
    assert found["pair"] == "g0.0 -> g1.0"
    assert "expected r0->g1.0" in found["hop"]
