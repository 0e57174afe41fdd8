"""The hash against published words of its generator, and its evenness by the binomial distribution."""

from __future__ import annotations

import numpy as np

from railweave.framework.model.arrays import mixed
from railweave.plugins.ecmp.hashing import FlowHash
from railweave.topologies.rail_only import RailOnly
from tests.fakes.tori import torus


def test_the_mixer_gives_the_published_words_of_splitmix64() -> None:
    """Vigna's splitmix64 from state 0 gives these; its state grows by the constant that the mixer adds."""
    golden = np.array([0x9E3779B97F4A7C15], np.uint64)
    states = np.array([0], np.uint64) + golden * np.arange(3, dtype=np.uint64)
    assert [hex(int(x)) for x in mixed(states)] == [
        "0xe220a8397b1dcdaf", "0x6e789e6aa1b965f4", "0x6c45d188009454f",
    ]  # fmt: skip


def test_neighbouring_flows_are_spread_evenly() -> None:
    """16,256 flows of neighbouring addresses over 2 to 7 next hops, each count within 5 sigma."""
    fabric = torus(4, 4, 8)
    flow_hash = FlowHash(fabric, 1, True)
    src, dst = np.divmod(np.arange(128 * 128), 128)
    flows = flow_hash.flows(src, dst)
    assert len(np.unique(flows)) == len(flows)
    for ways in range(2, 8):
        picks = flow_hash.pick(flows, np.zeros(len(flows), np.int64), np.full(len(flows), ways))
        share, sigma = len(flows) / ways, np.sqrt(len(flows) * (ways - 1)) / ways
        assert np.abs(np.bincount(picks, minlength=ways) - share).max() < 5 * sigma


def test_there_and_back_hash_apart() -> None:
    fabric = RailOnly().build({"domains": 4, "rails": 4})
    flow_hash = FlowHash(fabric, 1, True)
    assert flow_hash.flows(np.array([1]), np.array([2])) != flow_hash.flows(np.array([2]), np.array([1]))
