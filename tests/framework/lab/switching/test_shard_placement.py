"""Which shard runs which switch, counted by hand."""

from __future__ import annotations

import numpy as np
import pytest

from railweave.framework.lab.switching.shard_placement import place, shard_count
from railweave.topologies.rail_only import RailOnly
from tests.fakes.tori import torus


@pytest.mark.parametrize(
    ("domains", "rails", "cores", "expected"),
    [
        (4, 4, 8, 2),  # 64 links and 16 hosts: 80 ports
        (4, 4, 1, 1),
        (2, 2, 8, 1),  # 20 ports
        (2, 16, 8, 2),  # 160 ports, but only 2 domains
        (16, 16, 4, 4),
    ],
)
def test_a_shard_has_40_ports_and_a_whole_domain_at_least(
    domains: int, rails: int, cores: int, expected: int
) -> None:
    assert shard_count(RailOnly().build({"domains": domains, "rails": rails}), cores) == expected


def test_domains_stay_whole_and_rails_are_spread() -> None:
    """Four domains on two shards: each rail switch has as many neighbours on both,
    so ties balance the links."""
    fabric = RailOnly().build({"domains": 4, "rails": 4})
    shard = place(fabric, 2)
    assert shard[:16].reshape(4, 4).tolist() == [[0] * 4, [0] * 4, [1] * 4, [1] * 4]
    assert shard[16:20].tolist() == [0, 0, 1, 1]
    assert np.bincount(shard[20:]).tolist() == [2, 2]


def test_a_torus_is_cut_into_slabs() -> None:
    fabric = torus(4, 3, 2)
    assert place(fabric, 2).tolist() == (fabric.gpu_coordinates[:, 0] // 2).tolist()
