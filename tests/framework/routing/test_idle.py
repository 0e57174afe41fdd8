"""Links that routes leave idle, counted by hand on leaves that each have a link to four spines."""

from __future__ import annotations

from pathlib import Path

import pytest

import railweave as rw
from railweave.framework.experiment.plan import Plan

FABRIC = """\
fabric: 1
name: leaves
nodes:
  gpu: {prefix: g, shape: 4}
  leaf: {prefix: l, shape: 2}
  spine: {prefix: s, shape: 4}
links:
  - {kind: down, rate: 100Gb/s, cables: "g0-1 l0\\ng2-3 l1"}
  - {kind: up, rate: 100Gb/s, cables: "l* s*"}
"""


IDLE = (
    "12 of 16 links of kind up to switches carry nothing, such as l0->s1, while equal ones next to them do: "
    "`--router spray` spreads packets over them"
)


@pytest.mark.parametrize(("router", "idle"), [("shortest", [IDLE]), ("ecmp", [])])
def test_links_that_idle_beside_equal_ones_are_a_note(tmp_path: Path, router: str, idle: list[str]) -> None:
    """`shortest` takes spine 0 alone, so 3 of each leaf's 4 cables to spines idle, in both directions; by
    hashes of the 8 pairs between leaves half and more are used. A router that is not named is spray."""
    path = tmp_path / "leaves.yaml"
    path.write_text(FABRIC)
    plan = loaded(path, router=router)
    assert [note for note in plan.notes if "carry nothing" in note] == idle
    assert loaded(path).experiment.router.name == "spray"


def loaded(path: Path, **options: str) -> Plan:
    return rw.load(
        topology=f"file:{path}", collective="direct-all-to-all", size="64K", engine="fluid", **options
    )
