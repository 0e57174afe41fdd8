"""Random arrivals: what is drawn, against closed forms of the distributions, and the schedule of it."""

from __future__ import annotations

import numpy as np
import pytest

from railweave.framework.errors import ExperimentError
from railweave.framework.experiment.plan import load_plan
from railweave.framework.registry import load_plugins
from railweave.topologies.fat_tree import FatTree
from railweave.topologies.rail_only import RailOnly
from railweave.traffic.workloads.arrivals import PoissonArrivals
from tests.fakes.transfers import transfer_of

TREE = FatTree().build({"k": 4})


def test_gaps_are_exponential_sizes_pareto_and_pairs_uniform() -> None:
    """20,000 messages of 100 kB over 16 x 400 Gb/s at load 0.4: 3.2e6 a second. Of a Pareto distribution of
    shape 3, P(X > x) = (2 / 3 mean / x)^3."""
    work = PoissonArrivals(20_000, 0.4, 3.0, seed=4)
    schedule = work.schedule(TREE, range(16), 100_000, "float32", "sum")
    transfers = schedule.is_transfer
    assert transfers.tolist() == [False] * 20_000 + [True] * 20_000
    arrival, size = schedule.seconds[~transfers], schedule.size[transfers]
    gaps = np.diff(arrival, prepend=0.0)
    assert gaps.min() >= 0
    assert gaps.mean() == pytest.approx(1 / 3.2e6, rel=0.03) == pytest.approx(gaps.std(), rel=0.05)
    assert size.mean() == pytest.approx(100_000, rel=0.03) and size.min() >= 66_666
    for x in (80_000, 150_000, 300_000):
        assert (size > x).mean() == pytest.approx((2 / 3 * 100_000 / x) ** 3, rel=0.15)
    assert size.sum() * 8 / arrival[-1] == pytest.approx(0.4 * 16 * 400e9, rel=0.05)
    pairs = np.bincount(schedule.src[transfers] * 16 + schedule.dst[transfers], minlength=256).reshape(16, 16)
    assert not pairs.diagonal().any()
    assert pairs[~np.eye(16, dtype=bool)].min() > 50 and pairs.max() < 125  # 83 on average


def test_every_message_waits_for_its_arrival_alone() -> None:
    schedule = PoissonArrivals(50, seed=3).schedule(TREE, range(4, 9), 4096, "int8", "sum")
    assert schedule.n_transfers == 50 and schedule.n_ranks == 5 and schedule.phase_names == ("arrivals",)
    for i in range(50, 100):
        transfer = transfer_of(schedule, i)
        assert transfer.after == (i - 50,) and schedule.src[i - 50] == schedule.dst[i - 50] == transfer.src
    assert schedule == PoissonArrivals(50, seed=3).schedule(TREE, range(4, 9), 4096, "int8", "sum")
    assert schedule != PoissonArrivals(50, seed=4).schedule(TREE, range(4, 9), 4096, "int8", "sum")
    listed = schedule.expand()
    inputs = PoissonArrivals(50, seed=3).inputs(listed, 1)
    expected = [PoissonArrivals(50, seed=3).expected(listed, inputs, rank) for rank in range(5)]
    assert any(not np.array_equal(a, b) for a, b in zip(expected, inputs, strict=True))


def test_the_slowest_link_of_a_gpu_counts() -> None:
    """A GPU of a rail-only fabric has 3.6 Tb/s into its domain and 400 Gb/s onto its rail."""
    fabric = RailOnly().build({"domains": 4, "rails": 4})
    rails, tree = (PoissonArrivals(9).schedule(f, range(16), 1 << 20, "int8", "sum") for f in (fabric, TREE))
    assert np.array_equal(rails.seconds, tree.seconds)


def test_what_cannot_be_carried_out_is_refused() -> None:
    assert PoissonArrivals().schedule(TREE, range(2), 0, "int8", "sum").n_entries == 0
    with pytest.raises(ExperimentError, match="arrivals of 1 rank: it needs 2 or more"):
        PoissonArrivals().schedule(TREE, [3], 64, "int8", "sum")
    with pytest.raises(ExperimentError, match="arrivals computes, and engine emulation only sends"):
        load_plan(None, {"workload": "arrivals"}, load_plugins())
